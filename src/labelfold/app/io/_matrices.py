"""Files of numbers without column names: NPZ and svmlight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from labelfold.app.io._frames import group_values
from labelfold.app.io._problems import (
    FileProblem,
    did_you_mean,
    listed,
    one_line,
    open_text,
    pd,
    refuse_bomb,
    reporting,
    zip_sizes,
)
from labelfold.app.io._sources import Matrix, Request

# More columns than this, if most of them are empty, are refused as an error in the file.
_MOST_UNUSED = 10_000_000


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
    if d > _MOST_UNUSED and d > 100 * X.nnz:
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
        if max(map(int, shape)) > max(_MOST_UNUSED, 100 * len(data)):
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
        # not the file itself, of which NumPy reads on its own and takes a failure of the disk for the end
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
