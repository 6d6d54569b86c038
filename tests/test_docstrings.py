"""numpydoc's findings of substance, over all public names: every parameter and every result is documented."""

import inspect
from importlib import import_module

import pytest

import labelfold
from labelfold import model_selection

numpydoc = pytest.importorskip("numpydoc.validate", reason="numpydoc is in the dependency group test")

# Parameters that are missing, in another order, without a type or a description; missing results.
CODES = {"PR01", "PR03", "PR04", "PR07", "PR08", "RT01", "YD01"}
NAMES = [f"labelfold.{name}" for name in labelfold.__all__ if name != "__version__"]
NAMES += [f"labelfold.model_selection.{name}" for name in model_selection.__all__]


def methods_of(kind):
    """Yield the public methods and properties of a class that labelfold defines."""
    for name in dir(kind):
        owner = next((one for one in kind.__mro__ if name in vars(one)), kind)
        if not name.startswith("_") and owner.__module__.startswith("labelfold."):
            yield name


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_documented(name):
    module, _, attribute = name.rpartition(".")
    found = getattr(import_module(module), attribute)
    every = (
        [name, *(f"{name}.{method}" for method in methods_of(found))] if inspect.isclass(found) else [name]
    )
    errors = {one: numpydoc.validate(one)["errors"] for one in every}
    assert [
        f"{one}: {code} {text}" for one, told in errors.items() for code, text in told if code in CODES
    ] == []


@pytest.mark.parametrize("name", [name for name in labelfold._ESTIMATORS if name != "Recipe"])
def test_every_estimator_documents_its_number_of_columns(name):
    attributes = inspect.getdoc(getattr(labelfold, name)).partition("Attributes\n-")[2]
    assert "\nn_features_in_ : int\n" in attributes
