"""docs/parameters.md: every parameter of every estimator, its one meaning, and its default."""

import importlib.util
from pathlib import Path

import pytest

import labelfold

SCRIPT = Path(__file__).parents[1] / "docs" / "parameters.py"


@pytest.fixture(scope="module")
def docs():
    spec = importlib.util.spec_from_file_location("parameters", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def by_estimator(docs):
    return {name: found for models in docs.signatures().values() for name, found in models.items()}


def test_the_page_is_what_the_signatures_say(docs):
    assert docs.PAGE.read_text(encoding="utf-8") == docs.page(), "run python docs/parameters.py"


def test_every_name_has_one_meaning_and_is_used(docs):
    used = {p for defaults in by_estimator(docs).values() for p in defaults}
    assert used == set(docs.MEANINGS)
    # two names for one thing would have the same words
    assert len({meaning for meaning, _ in docs.MEANINGS.values()}) == len(docs.MEANINGS)


def test_every_public_estimator_is_there(docs):
    public = {name for name in labelfold.__all__ if hasattr(getattr(labelfold, name), "fit")}
    assert set(by_estimator(docs)) == public


def test_what_is_checked_are_parameters(docs):
    for name, parameters in by_estimator(docs).items():
        checked = set(getattr(labelfold, name)._parameter_constraints)
        assert checked <= set(parameters), name
        assert set(parameters) - checked <= {"unlabeled"}, name


@pytest.mark.parametrize("name", ["random_state", "max_gram_bytes", "n_landmarks", "unlabeled", "verbose"])
def test_what_means_the_same_everywhere_has_the_same_default(docs, name):
    assert len({str(defaults[name]) for defaults in by_estimator(docs).values() if name in defaults}) == 1
