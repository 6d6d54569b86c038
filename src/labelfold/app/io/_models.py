"""Models on disk: skops files with a small JSON note, never pickles.

A model file is a zip archive. ``labelfold.json`` describes it (format version, method, feature names) and is read
first. The rest is in the format of skops; classes of labelfold have their public paths (`labelfold.saved`), not those
of the defining modules. Loading builds only objects whose types are on an allow-list: these paths and the types that
skops trusts (scikit-learn's estimators, NumPy and SciPy arrays, plain containers).
"""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelfold.app.io._errors import FileProblem, listed, one_line, pd, read_from
from labelfold.app.io._files import MIB, existing_file, max_unpacked, refuse_bomb, writable_file
from labelfold.app.io._writing import undated, write_finished
from labelfold.saved import public_path, public_paths
from labelfold.utils import warn_user

if TYPE_CHECKING:
    from labelfold.app.io._tables import Table

FORMAT = "labelfold-model"
FORMAT_VERSION = 3  # version 1 stored module paths, version 2 recipes and views in another form
_NOTE = "labelfold.json"
_SCHEMA = "schema.json"
_VERSIONS = ("labelfold", "scikit-learn")
_MAX_NOTE = 256 * MIB  # parsed, it takes several times its size

# Arrays that skops knows only under older names, and the dtype of an array, which it stores as an empty array.
_HARMLESS = {"scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix", "numpy.dtype"}


class Unsavable(FileProblem):
    """A model that cannot be saved."""


@dataclass(frozen=True)
class SavedModel:
    """A model from a file: the estimator and its notes."""

    model: Any
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def recipe(self) -> Any:
        """The recipe at the start of the model, or None."""
        return getattr(self.model, "named_steps", {}).get("recipe")

    @property
    def columns(self) -> list[str] | None:
        """The columns of a table that the model reads; None if it takes them by their number, or all."""
        if self.recipe is None:
            return self.meta.get("feature_names") or self.meta.get("columns")
        return self.recipe.used_ if hasattr(self.recipe, "feature_names_in_") else None

    def rows_of(self, table: Table) -> tuple[Any, int]:
        """Return the rows of a table in the form that the model was fitted on, and the number of cells filled.

        These are missing and infinite cells of a matrix, in place of which the model has medians.
        """
        filled, named = 0, table.feature_names is not None
        if self.recipe is not None and self.columns is not None and named:
            return table.columns(), filled
        expected = self.meta.get("n_features")
        table = table.padded(expected)
        X, medians = table.raw, self.meta.get("medians")
        if self.recipe is None or named:
            X, filled = (table.X, 0) if medians is None else table.filled(medians)
        if expected not in (None, X.shape[1]):
            raise FileProblem(
                f"{table.source} has {X.shape[1]} columns for X where the model was fitted on {expected}; leave out "
                "others with --drop."
            )
        names = self.meta.get("feature_names")
        if names is not None and hasattr(X, "__array__"):
            X = pd.DataFrame(X, columns=names, copy=False)
        return X, filled


def save_model(model: Any, path: str | os.PathLike[str], **notes: Any) -> Path:
    """Save a fitted model so that :func:`load_model` gives it back exactly.

    Parameters
    ----------
    model : estimator
        A labelfold or scikit-learn estimator, or a pipeline of them.
    path : path
        The file to write. An existing file is replaced when the new one is complete.
    **notes : JSON values
        Further information to save, such as ``target="species"``.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from sklearn.preprocessing import StandardScaler
    >>> scaler = StandardScaler().fit(np.eye(3))
    >>> path = save_model(scaler, tempfile.mkdtemp() + "/scaler.skops")
    >>> load_model(path).mean_.tolist() == scaler.mean_.tolist()
    True
    """
    import skops.io

    path = writable_file(path)
    try:
        with undated():
            dumped = skops.io.dumps(model)
    except Exception as error:
        raise Unsavable(f"{type(model).__name__} cannot be saved: {one_line(error)}.") from error
    note = {"format": FORMAT, "format_version": FORMAT_VERSION, "meta": describe_model(model) | notes}
    with undated():
        data = _packed(dumped, note)
    refused = _refused(skops.io.get_untrusted_types(data=data))
    if refused:
        raise Unsavable(
            f"{type(model).__name__} holds {listed(refused)}, which labelfold would refuse to load, "
            "so it was not saved."
        )
    return write_finished(path, data)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model saved by :func:`save_model`.

    Every type in the file is checked against the allow-list before any object is built. A file with another type is
    refused with a :class:`FileProblem` that names the type.

    Parameters
    ----------
    path : path
        The model file.

    Returns
    -------
    estimator
        The fitted model.
    """
    return read_model(path).model


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """Load a model and its notes; see :func:`load_model`."""
    import skops.io

    path = existing_file(path)
    with read_from(path):
        data = path.read_bytes()
    meta = _read_note(path, data)
    try:
        unknown = skops.io.get_untrusted_types(data=data)
    except Exception as error:
        raise _damaged(path, one_line(error)) from error
    other = _other_versions(meta)
    unread = FileProblem(
        f"{path} was written by {other}, which this version cannot read: fit the model again, or install those "
        "versions."
    )
    refused = _refused(unknown)
    if other and refused and all(name.startswith("labelfold.") for name in refused):
        raise unread
    if refused:
        raise FileProblem(
            f"{path} was refused and nothing in it was run: it holds {listed(refused)}, which is no part of a "
            "labelfold model; load only models that labelfold wrote."
        )
    try:
        model = skops.io.loads(data, trusted=unknown)
    except Exception as error:
        raise (unread if other else _damaged(path, one_line(error))) from error
    if other:
        warn_user(f"{path} was written by {other}: fit the model again if what it says looks wrong.")
    return SavedModel(model, meta)


def describe_model(model: Any) -> dict[str, Any]:
    """Return a description of a fitted model, as JSON values."""
    last = model[-1] if hasattr(model, "steps") else model
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    components = getattr(last, "components_", None)
    return {
        **{package: version(package) for package in _VERSIONS},
        "model": type(last).__name__,
        "feature_names": None if names is None else [str(n) for n in names],
        "n_features": int(model.n_features_in_) if hasattr(model, "n_features_in_") else None,
        "classes": None if classes is None else [str(c) for c in classes],
        "n_components": None if components is None else len(components),
    }


def _packed(dumped: bytes, note: dict[str, Any], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a model file from the dump of skops: compressed, with public paths and the notes."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(dumped)) as source,
        zipfile.ZipFile(buffer, "w", compression=compression) as archive,
    ):
        for name in source.namelist():
            content = source.read(name)
            if name == _SCHEMA:
                schema = json.loads(content)
                _publish(schema)
                content = json.dumps(schema).encode()
            archive.writestr(name, content)
        archive.writestr(_NOTE, json.dumps(note))
    packed, unpacked = buffer.getvalue(), sum(m.file_size for m in archive.infolist())
    # a file that would be refused as a decompression bomb is stored without compression
    small = compression == zipfile.ZIP_STORED or unpacked <= max_unpacked(len(packed))
    return packed if small else _packed(dumped, note, zipfile.ZIP_STORED)


def _publish(node: Any) -> None:
    """Replace the path of each labelfold class in a part of a schema by its public path, if it has one."""
    if isinstance(node, dict):
        module, name = node.get("__module__"), node.get("__class__")
        # A dict of the user may have the same keys; its values are nodes, not text.
        if isinstance(module, str) and isinstance(name, str) and module.split(".")[0] == "labelfold":
            path = public_path(module, name) or f"{module}.{name}"
            node["__module__"], _, node["__class__"] = path.rpartition(".")
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _publish(child)


def _read_note(path: Path, data: bytes) -> dict[str, Any]:
    """Return the notes of a model file, or raise an error if it is not one or has another format version."""
    if not data.startswith(b"PK"):
        raise _foreign(path, "it is no zip file, and pickles are never opened")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            refuse_bomb(path, len(data), sum(m.file_size for m in archive.infolist()))
            damaged = archive.testzip()
            if damaged is not None:
                raise _damaged(path, f"{damaged} in it does not match its checksum")
            if archive.getinfo(_NOTE).file_size > _MAX_NOTE:
                raise _foreign(path, f"its {_NOTE} is too large")
            note = json.loads(archive.read(_NOTE))
    except (zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, one_line(error)) from error
    except KeyError:
        raise _foreign(path, f"it is a zip file without a {_NOTE}") from None
    except (ValueError, RuntimeError, NotImplementedError) as error:
        if isinstance(error, FileProblem):
            raise
        raise _foreign(path, one_line(error)) from error
    if not isinstance(note, dict) or note.get("format") != FORMAT:
        raise _foreign(path, f"its {_NOTE} does not say so")
    found = note.get("format_version")
    if not isinstance(found, int) or found < 1:
        raise _damaged(path, f"its {_NOTE} names no format")
    if found > FORMAT_VERSION:
        raise FileProblem(
            f"{path} was written by a newer labelfold (format {found}; this one reads up to "
            f"{FORMAT_VERSION}): upgrade labelfold to load it."
        )
    if found < FORMAT_VERSION:
        raise FileProblem(
            f"{path} was written by an older labelfold (format {found}; this one reads format {FORMAT_VERSION}): "
            "fit the model again and save it."
        )
    meta = note.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    names, n_features = meta.get("feature_names"), meta.get("n_features")
    named = names is None or (isinstance(names, list) and all(isinstance(n, str) for n in names))
    if not named or not isinstance(n_features, int | None):
        raise _damaged(path, f"its {_NOTE} does not list columns")
    # the other notes are only displayed; a note of the wrong type is dropped
    shown = meta.keys() & _KINDS.keys()
    wrong = [name for name in shown if not any(_is(meta[name], kind) for kind in _KINDS[name])]
    return meta | dict.fromkeys(wrong)


def _is(value: Any, kind: Any) -> bool:
    """Tell whether a JSON value is of a kind: a type, [kind] for a list, or (kind, kind) for a pair."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(item, kind[0]) for item in value)
    if isinstance(kind, tuple):
        return isinstance(value, list) and len(value) == len(kind) and all(map(_is, value, kind))
    return isinstance(value, kind) and not isinstance(value, bool)


# The kinds of notes that are shown; any of several.
_KINDS: dict[str, list[Any]] = {
    **{name: [str] for name in ("model", "method", *_VERSIONS)},
    **{name: [int] for name in ("n_rows", "n_labelled", "n_components", "index_base")},
    "classes": [[str]],
    "target": [str, [str]],
    "counts": [[int]],
    "range": [(int | float, int | float)],
    "within": [int | float],
    "top_features": [[[(str, int | float)]]],
}


def _damaged(path: Path, why: str) -> FileProblem:
    return FileProblem(f"{path} is damaged or cut short: {why}; copy it again, or fit the model again.")


def _foreign(path: Path, why: str) -> FileProblem:
    return FileProblem(
        f"{path} is not a labelfold model: {why}; name a file that labelfold fit, labelfold compare --save or "
        "labelfold.save wrote."
    )


def _other_versions(meta: dict[str, Any]) -> str:
    """Return the versions with which a model was written, if they differ from the installed ones."""
    noted = {package: meta.get(package) for package in _VERSIONS}
    old = {p: v for p, v in noted.items() if isinstance(v, str) and _series(v) != _series(version(p))}
    return " and ".join(f"{package} {v} (this is {version(package)})" for package, v in old.items())


def _series(text: str) -> str:
    """Return the part of a version that matters for saved models, such as 1.9 of 1.9.2."""
    return ".".join(text.split(".")[:2])


def _refused(unknown: list[str]) -> list[str]:
    """Return the types that are neither known to skops nor labelfold's own."""
    return sorted(set(unknown) - public_paths().keys() - _HARMLESS)
