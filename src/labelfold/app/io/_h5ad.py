"""AnnData: cells by genes, read from .h5ad files, and embeddings and predictions written to copies of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._frames import chosen, group_values
from labelfold.app.io._problems import FileProblem, pd, read_from, reporting
from labelfold.app.io._sources import Matrix, Request
from labelfold.app.io._writing import finished_file

# Names of the embedding, and of the columns of predictions, in a written copy.
EMBEDDING, PREDICTION = "X_labelfold", "labelfold"


def read_h5ad(path: Path, kind: str, request: Request) -> Matrix:
    """Read X, some columns of obs, and the names of genes and cells."""
    import anndata
    import h5py

    with _worded(path):
        with h5py.File(path) as file:
            if {"obs", "var"} <= set(file) and "X" not in file:
                raise FileProblem(f"{path} has no X; save the matrix that is to be learned from as X.")
        cells = anndata.read_h5ad(path, backed="r")
        try:
            obs, genes, X = cells.obs, list(map(str, cells.var_names)), cells.X[:]
        finally:
            cells.file.close()
    if len(set(genes)) < len(genes):
        twice = next(name for name in genes if genes.count(name) > 1)
        raise FileProblem(
            f"{path} has more than one gene named {twice!r}; call var_names_make_unique() and save it."
        )
    X = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if X.dtype != np.float32:
        X = X.astype(np.float64)
    names = list(map(str, obs.columns))
    wanted = [name for name in request.targets if name in names or not request.optional]
    targets = chosen(path, names, "obs", wanted)
    obs.columns = names
    ids = obs[chosen(path, names, "id", request.ids)].astype(object).reset_index(drop=True)
    if ids.empty:
        ids = pd.DataFrame({obs.index.name or "cell": obs.index.astype(str)})
    y = obs[targets].reset_index(drop=True) if targets else None
    groups = group_values(
        obs[chosen(path, names, "group", request.groups)].reset_index(drop=True).astype(object)
    )
    return Matrix(
        X, y if y is None or len(targets) > 1 else y[targets[0]], genes, ids, targets, groups=groups
    )


def writable_copy(source: Any, path: str | os.PathLike) -> None:
    """Raise an error if an .h5ad output would not be a copy of an .h5ad input."""
    if not isinstance(source, Path) or source.suffix.lower() != ".h5ad":
        raise FileProblem(f"{path} would be a copy of the .h5ad file that is read, and {source} is none.")
    if Path(path).resolve() == source.resolve():
        raise FileProblem(f"{path} is the file that is read; name another one for the copy.")


def write_copy(
    source: Path, path: str | os.PathLike, embedding: np.ndarray | None, columns: Mapping[str, Any]
) -> Path:
    """Write a copy of a file that also has an embedding and predictions.

    Parameters
    ----------
    source : Path
        The file that was read. All of its content is copied.
    path : path
        The copy.
    embedding : ndarray of shape (n, k), optional
        Goes to ``obsm["X_labelfold"]``.
    columns : mapping of str to array
        Go to ``obs["labelfold_..."]``; text as categories.
    """
    import anndata
    import h5py

    writable_copy(source, path)
    with _worded(source), finished_file(path) as file:
        for part in _parts(source):
            file.write(part)
        file.flush()
        with h5py.File(file.name, "r+", locking=False) as made:  # the unfinished file already has a lock
            if embedding is not None:
                obsm = made.require_group("obsm")
                anndata.io.write_elem(obsm, EMBEDDING, np.asarray(embedding, dtype=np.float32))
            obs = made["obs"]
            if not isinstance(obs, h5py.Group):
                raise FileProblem(
                    f"{source} is of anndata before 0.7; read it and write it again with a newer one."
                )
            order = list(obs.attrs.get("column-order", ()))
            for name, values in columns.items():
                title, values = f"{PREDICTION}_{name.replace(' ', '_').replace('/', '_')}", np.asarray(values)
                named = values.dtype.kind != "f"  # class names, even if they are numbers
                anndata.io.write_elem(obs, title, pd.Categorical(values.astype(str)) if named else values)
                order += [title] if title not in order else []
            obs.attrs["column-order"] = np.array(order, dtype=object)
    return Path(path)


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while True:
            with read_from(path):
                part = file.read(1 << 24)
            if not part:
                return
            yield part


@contextmanager
def _worded(path: Path) -> Iterator[None]:
    """Turn errors about a file into one sentence, and suppress the warnings of anndata."""
    with reporting(path, "is not a whole .h5ad file"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except Exception as error:
            if isinstance(error, BlockingIOError) or "unable to lock" in str(error):
                raise FileProblem(
                    f"{path} is locked by another program; close it there, or read a copy."
                ) from None
            raise
