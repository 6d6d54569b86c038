"""Reading tables, writing embeddings, saving and loading models."""

from labelfold.files.models import SavedModel, load_model, read_model, save_model
from labelfold.files.problem import FileProblem
from labelfold.files.tables import Table, read_table
from labelfold.files.writing import write_table

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
