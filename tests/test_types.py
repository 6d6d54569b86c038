"""What editors are told of the public names is what there is. `make types` checks the types themselves."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import labelfold

SCRIPT = Path(__file__).parents[1] / "docs" / "methods.py"


@pytest.fixture(scope="module")
def docs():
    spec = importlib.util.spec_from_file_location("methods", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_follows_from_the_list_of_estimators_is_up_to_date(docs):
    for page, text in docs.PAGES.items():
        assert page.read_text(encoding="utf-8") == text(), "run make docs"


def imported_for_editors():
    """The names that the package's stub imports, and from where."""
    tree = ast.parse(Path(labelfold.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: f"labelfold{'.' * bool(line.module)}{line.module or ''}:{alias.name}"
        for line in tree.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def test_editors_are_told_every_public_name_and_where_it_lives():
    packages = {name: f"labelfold:{name}" for name in labelfold._PACKAGES}
    assert imported_for_editors() == labelfold._PUBLIC | packages
    assert set(labelfold.__all__) == set(labelfold._PUBLIC) | {"__version__"}
    assert (Path(labelfold.__file__).parent / "py.typed").exists()


def test_every_package_is_an_attribute_that_is_imported_when_it_is_used():
    folder = Path(labelfold.__file__).parent
    assert set(labelfold._PACKAGES) == {path.parent.name for path in folder.glob("*/__init__.py")}
    code = (
        "import sys, labelfold\n"
        "assert not [name for name in sys.modules if name.startswith('labelfold.')]\n"
        "assert set(labelfold._PACKAGES) <= set(dir(labelfold))\n"
        "assert labelfold.discriminant.LDA is labelfold.LDA\n"
        "for name in labelfold._PACKAGES:\n"
        "    assert getattr(labelfold, name).__name__ == f'labelfold.{name}'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("family", labelfold._FAMILIES)
def test_a_family_and_the_package_have_the_same_estimators(family):
    path = f"labelfold.{family}"
    module = importlib.import_module(path)
    here = {name for name, place in labelfold._ESTIMATORS.items() if place.startswith(f"{path}:")}
    exported = {name: getattr(module, name) for name in module.__all__}
    assert here == {
        n for n, what in exported.items() if isinstance(what, type) and issubclass(what, BaseEstimator)
    }
    for name in here:
        assert getattr(labelfold, name) is getattr(module, name)


def test_every_estimator_is_among_the_cases_of_wrong_keywords():
    cases = (Path(__file__).parent / "typing_cases.py").read_text()
    assert [name for name in labelfold._ESTIMATORS if f"{name}(" not in cases] == []
