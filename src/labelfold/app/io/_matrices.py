"""Files of numbers without a table: NPZ, NPY, svmlight and .h5ad, of which a copy is written too."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._arrow_tables import chosen, group_values
from labelfold.app.io._errors import FileProblem, did_you_mean, listed, one_line, pd, read_from, reporting
from labelfold.app.io._files import BLOCK, open_text, refuse_bomb, zip_sizes
from labelfold.app.io._sources import Matrix, Request
from labelfold.app.io._writing import finished_file

# More columns than this, if most of them are empty, are refused as an error in the file.
_MAX_UNUSED = 10_000_000


def npz_source(path: Path, kind: str, request: Request) -> Matrix:
    """Read an NPZ file: X, the target (``y`` or ``Y`` by default), the feature names and the ids."""
    if len(request.targets) > 1:
        raise _no_choice(path, request)
    arrays = _Arrays(path)
    X = _matrix(path, arrays)
    name = next((n for n in (*request.targets, "y", "Y") if n in arrays), None)
    if request.targets and not request.optional and name != request.targets[0]:
        (name,) = request.targets
        hint = did_you_mean(name, arrays)
        raise FileProblem(f"{path} has no target array {name!r}{hint}; it holds {listed(arrays)}.")
    y = None if name is None else arrays[name]
    if y is not None and y.dtype.kind not in "biufUS":
        raise FileProblem(
            f"{path} has a target {name!r} of type {y.dtype}, where numbers or text are expected."
        )
    if y is not None and (y.ndim not in (1, 2) or len(y) != X.shape[0]):
        raise FileProblem(f"{path} has {X.shape[0]} rows in X but a target of shape {y.shape}.")
    names = arrays.get("feature_names")
    named = None if names is None or names.shape != X.shape[1:] else [str(n) for n in names]
    ids, groups = (
        _arrays_of_rows(path, arrays, role, names, X.shape[0])
        for role, names in (("id", request.ids), ("group", request.groups))
    )
    return Matrix(
        X, y, named, ids if len(ids.columns) else None, list(request.targets), groups=group_values(groups)
    )


def _arrays_of_rows(
    path: Path, arrays: Mapping[str, np.ndarray], role: str, names: Sequence[str], n: int
) -> Any:
    for name in names:
        if name not in arrays or arrays[name].shape != (n,):
            hint = did_you_mean(name, arrays)
            raise FileProblem(
                f"{path} has no {role} array {name!r} of {n} values{hint}; it holds {listed(arrays)}."
            )
    return pd.DataFrame({name: arrays[name] for name in names}, index=range(n))


def svmlight_source(path: Path, kind: str, request: Request) -> Matrix:
    """Read an svmlight file. Its columns are numbered from 0 or 1, as those of the fitted rows if there are any."""
    from sklearn.datasets import load_svmlight_file

    _refuse_ids(path, request)
    if request.targets and not request.optional:
        raise _no_choice(path, request)
    fault = "is not svmlight text (label index:value ..., one row a line)"
    cure, errors = "correct it, or give its real format with --format", (ValueError, OSError, EOFError)
    with reporting(path, fault, cure, errors), open_text(path) as file:
        try:
            X, y = load_svmlight_file(file, zero_based=True)
        except OverflowError:
            raise FileProblem(
                f"{path} has an index above {2**31 - 1:,}; number the columns from 1 up."
            ) from None
    X = sp.csr_array(X)
    first = int(X.indices.min(initial=1))
    # decided here, not by scikit-learn, so that new rows are read with the base of the fitted rows
    index_base = min(first, 1) if request.index_base is None else request.index_base
    if first < index_base:
        raise FileProblem(f"{path} counts its columns from 0, and the file the model was fitted on from 1.")
    d = X.shape[1] - index_base
    if d > _MAX_UNUSED and d > 100 * X.nnz:
        raise FileProblem(
            f"{path} has an index of {d:,}, which would make as many columns, though it holds {X.nnz:,} values in "
            "all; number the columns from 1 up without gaps."
        )
    # in place, because these arrays may fill most of the memory
    X.indices -= index_base
    X = sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], max(d, 0)))
    # every line has a label, perhaps a placeholder; a separate file of labels replaces it
    return Matrix(X, None if request.optional else y, index_base=index_base)


class _Arrays(Mapping):
    """The arrays of an NPZ file. Each is unpacked when it is used, with a limit on its size."""

    def __init__(self, path: Path) -> None:
        sizes = zip_sizes(path)
        if sizes is None:
            raise FileProblem(
                f"{path} is not a whole NPZ file (a zip of NumPy arrays); write it with numpy.savez or copy it again."
            )
        self.path, self.unpacked = path, 0
        self.read: dict[str, np.ndarray] = {}
        self.sizes = {name.removesuffix(".npy"): size for name, size in sizes.items()}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.read:
            self.unpacked += self.sizes[name]
            refuse_bomb(self.path, self.path.stat().st_size, self.unpacked)
            with reporting(self.path, "is not a whole NPZ file"):
                self.read[name] = self._unpacked(name)
        return self.read[name]

    def _unpacked(self, name: str) -> np.ndarray:
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                return stored[name]
        except ValueError as error:
            if "Object arrays" in str(error):
                raise FileProblem(
                    f"{self.path} holds an array of Python objects, which is never opened; save numbers or strings."
                ) from None
            raise

    def __iter__(self) -> Iterator[str]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def __contains__(self, name: object) -> bool:
        return name in self.sizes


def _matrix(path: Path, arrays: Mapping[str, np.ndarray]) -> Any:
    """Build X: dense, in the layout of scipy.sparse.save_npz, or from the parts of a CSR matrix under X_*."""
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise FileProblem(
                f"{path} has an X of shape {X.shape} and type {X.dtype}, not a matrix of numbers."
            )
        return _floats(X)
    prefix = "X_" if "X_data" in arrays else ""
    parts = [prefix + p for p in ("data", "indices", "indptr", "shape")]
    if not set(parts) <= arrays.keys():
        raise FileProblem(f"{path} has no array X, nor the parts of a sparse one; it holds {listed(arrays)}.")
    data, indices, indptr, shape = (arrays[p] for p in parts)
    layout = "csr" if prefix else arrays.get("format", np.array(b"csr")).item()
    layout = layout.decode() if isinstance(layout, bytes) else layout
    makers = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}
    try:
        if data.dtype.kind not in "fiub":
            raise ValueError(f"its values are of type {data.dtype}")
        if max(map(int, shape)) > max(_MAX_UNUSED, 100 * len(data)):
            raise ValueError(
                f"its shape is {tuple(map(int, shape))}, though it holds {len(data):,} values in all"
            )
        X = makers[layout]((data, indices, indptr), shape=tuple(int(s) for s in shape))
        X.check_format(full_check=True)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise FileProblem(f"{path} does not hold a valid sparse matrix: {one_line(error)}.") from error
    return _floats(X.tocsr())


def _floats(X: Any) -> Any:
    """Return X as float64, or unchanged if it is float32."""
    return X if X.dtype == np.float32 else X.astype(np.float64, copy=False)


def npy_source(path: Path, kind: str, request: Request) -> Matrix:
    """Read an NPY file, which holds X only."""
    if request.targets and not request.optional:
        raise FileProblem(
            f"{path} holds one array and no target; name a file of labels beside it with --labels."
        )
    _refuse_ids(path, request)
    cure = "write it with numpy.save, or copy it again"
    with reporting(path, "is not a whole NPY file of numbers", cure), path.open("rb") as file:
        # NumPy would read the file itself by its descriptor, and take a failure of the disk for the end of the file
        X = np.load(
            SimpleNamespace(read=file.read, readline=file.readline, seek=file.seek), allow_pickle=False
        )
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "fiub":
        shape, dtype = getattr(X, "shape", ()), getattr(X, "dtype", type(X).__name__)
        raise FileProblem(f"{path} has an X of shape {shape} and type {dtype}, not a matrix of numbers.")
    return Matrix(_floats(X))


def _refuse_ids(path: Path, request: Request) -> None:
    if request.ids or request.groups:
        raise FileProblem(f"{path} has no named columns, so none can be an id, a group or dropped.")


def _no_choice(path: Path, request: Request) -> FileProblem:
    return FileProblem(
        f"{path} has no target columns to choose from; leave out --target {request.targets[-1]}."
    )


# Names of the embedding, and of the columns of predictions, in a written copy.
EMBEDDING, PREDICTION = "X_labelfold", "labelfold"


def read_h5ad(path: Path, kind: str, request: Request) -> Matrix:
    """Read X, some columns of obs, and the names of genes and cells."""
    import anndata
    import h5py

    with _h5ad_problems(path):
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


def writable_copy(source: Any, path: str | os.PathLike[str]) -> None:
    """Raise an error if an .h5ad output would not be a copy of an .h5ad input."""
    if not isinstance(source, Path) or source.suffix.lower() != ".h5ad":
        raise FileProblem(f"{path} would be a copy of the .h5ad file that is read, and {source} is none.")
    if Path(path).resolve() == source.resolve():
        raise FileProblem(f"{path} is the file that is read; name another one for the copy.")


def write_copy(
    source: Path, path: str | os.PathLike[str], embedding: np.ndarray | None, columns: Mapping[str, Any]
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
    with _h5ad_problems(source), finished_file(path) as file:
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
                part = file.read(BLOCK)
            if not part:
                return
            yield part


@contextmanager
def _h5ad_problems(path: Path) -> Iterator[None]:
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
