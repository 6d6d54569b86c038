"""The names of classes in saved models: each leads to its class, and none depends on where that class is defined."""

import importlib
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

import labelfold
from labelfold import HSL, LDA, saved
from labelfold.app.registry import get_method

PATHS = saved.public_paths()


@pytest.mark.parametrize("path", PATHS)
def test_every_name_leads_to_its_class_and_back(path):
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    assert isinstance(found, type)
    assert saved.public_path(found.__module__, found.__name__) == path


def test_a_name_that_is_not_there_is_said_to_be_none():
    with pytest.raises(AttributeError, match=r"no attribute 'Nil'; it has .*Coded, "):
        saved.Nil  # noqa: B018
    assert "Tuned" in dir(saved)
    assert saved.public_path("labelfold.elsewhere", "LDA") is None


def test_every_estimator_in_the_package_has_a_name():
    """Those without subclasses: the others are bases, or have a name anyway."""
    for module in pkgutil.walk_packages(labelfold.__path__, "labelfold."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:  # loops for a GPU, which hold no estimator
            if missing.name not in ("torch", "triton"):
                raise

    def leaves(cls):
        below = [c for c in cls.__subclasses__() if c.__module__.startswith("labelfold.")]
        return {cls} if not below else set().union(*map(leaves, below))

    def ours(cls):
        found = {cls} if cls.__module__.startswith("labelfold.") else set()
        return found.union(*map(ours, cls.__subclasses__()))

    estimators = set().union(*map(leaves, ours(BaseEstimator)))
    assert LDA in estimators
    assert [c for c in estimators if saved.public_path(c.__module__, c.__name__) is None] == []


@pytest.fixture
def data():
    X, y = load_iris(return_X_y=True)
    return X, np.where(np.arange(len(y)) % 3, y, -1)


MOVED = {
    "labelfold.app.registry._adapters": "labelfold.app.registry._gaps",
    "labelfold.app.registry._tuned": "labelfold.app.registry._penalties",
    "labelfold.discriminant._hsl": "labelfold.discriminant._hypergraphs",
    "labelfold.discriminant._lda": "labelfold.discriminant._classes",
    "labelfold.discriminant._streaming": "labelfold._batches",
    "labelfold.features._kernel_map": "labelfold.features._landmarks",
}

LOADS_IN_A_NEW_HOUSE = """
import sys, labelfold, numpy as np
for name in sys.argv[1:]:
    model = labelfold.load(name + ".skops")
    np.testing.assert_array_equal(model.predict(np.load("X.npy")), np.load(name + ".npy"))
    print(type(model).__module__)
"""


def test_a_model_outlives_the_modules_it_was_saved_from(tmp_path, data):
    """Modules are moved in a copy of the package, as a later version might, and load what this one saved."""
    X, y = data
    streamed = LDA(ridge=1.0)
    for part in np.array_split(np.arange(len(y)), 2):
        streamed.partial_fit(X[part], y[part], classes=[0, 1, 2])
    models = {
        "lda": streamed,
        "hsl": make_pipeline(HSL(kernel="rbf", ridge=1.0)).fit(X, y),
        "pca-svm": get_method("pca-svm").make(2, X=X).fit(X, y),
    }
    np.save(tmp_path / "X.npy", X)
    for name, model in models.items():
        labelfold.save(model, tmp_path / f"{name}.skops")
        np.save(tmp_path / f"{name}.npy", model.predict(X))

    house = tmp_path / "labelfold"
    shutil.copytree(Path(labelfold.__file__).parent, house, ignore=shutil.ignore_patterns("__pycache__"))
    file_of = {name: tmp_path / (name.replace(".", "/") + ".py") for name in [*MOVED, *MOVED.values()]}
    for old, new in MOVED.items():
        file_of[old].rename(file_of[new])
    for file in [*house.rglob("*.py"), *house.rglob("*.pyi")]:
        text = file.read_text()
        for old, new in MOVED.items():
            room, _, module = old.rpartition(".")
            if file == tmp_path.joinpath(*room.split("."), "__init__.pyi"):
                text = text.replace(f"from .{module} import", f"from .{new.rpartition('.')[2]} import")
            text = re.sub(rf"\b{re.escape(old)}\b", new, text)
        file.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", LOADS_IN_A_NEW_HOUSE, *models],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = ["labelfold.discriminant._classes", "sklearn.pipeline", "labelfold.app.registry._gaps"]
    assert done.stdout.split() == expected
