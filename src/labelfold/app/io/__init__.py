"""Reading tables, writing embeddings, saving and loading models."""

from labelfold.app.io._models import SavedModel, load_model, read_model, save_model
from labelfold.app.io._problems import FileProblem
from labelfold.app.io._tables import Table, read_table
from labelfold.app.io._writing import write_table

__all__ = [
    "FileProblem",
    "SavedModel",
    "Table",
    "load_model",
    "read_model",
    "read_table",
    "save_model",
    "write_table",
]
