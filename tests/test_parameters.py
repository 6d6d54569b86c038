"""docs/parameters.md: every parameter of every estimator, its one meaning, and its default."""

import importlib.util
import warnings
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from sklearn.utils._param_validation import StrOptions

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


def compare(found, exceptions):
    """``found`` has a value for each name and estimator: those that are not among the exceptions have to agree."""
    for name, values in found.items():
        others = {one for some in exceptions.get(name, {}) for one in some}
        assert others <= set(values), (name, "an exception that does not have the parameter")
        usual = {value for one, value in values.items() if one not in others}
        assert len(usual) <= 1, (name, {one: v for one, v in values.items() if one not in others})
        assert usual.isdisjoint(values[one] for one in others), (name, "an exception that is none")
    assert set(exceptions) <= set(found)


def accepted(constraint):
    kinds = constraint if isinstance(constraint, list) else [constraint]
    return tuple(sorted(str(kind) for kind in kinds))


def test_a_name_takes_the_same_values_in_all_estimators(docs):
    found = {}
    for one in by_estimator(docs):
        for name, constraint in getattr(labelfold, one)._parameter_constraints.items():
            found.setdefault(name, {})[one] = accepted(constraint)
    compare(found, docs.OTHER_VALUES)


def test_a_name_has_the_same_default_in_all_estimators(docs):
    found = {}
    for one, defaults in by_estimator(docs).items():
        for name, default in defaults.items():
            found.setdefault(name, {})[one] = default
    compare(found, docs.OTHER_DEFAULTS)


def test_the_comparison_sees_a_difference():
    same = {"gamma": {"LDA": "auto", "CCA": "auto", "NSDR": "auto"}}
    compare(same, {})
    with pytest.raises(AssertionError, match="gamma"):
        compare({"gamma": same["gamma"] | {"CCA": None}}, {})
    with pytest.raises(AssertionError, match="an exception that is none"):
        compare(same, {"gamma": {("CCA",): "why"}})


def test_no_estimator_has_many_parameters(docs):
    common = {
        "task",
        "unlabeled",
        "random_state",
        "verbose",
        "max_iter",
        "tol",
        "max_gram_bytes",
        "class_weight",
    }
    assert {one: n for one, found in by_estimator(docs).items() if (n := len(set(found) - common)) > 15} == {}


def choices(annotation):
    """The strings that a type allows."""
    if get_origin(annotation) is Literal:
        return {value for value in get_args(annotation) if isinstance(value, str)}
    return set().union(*(choices(part) for part in get_args(annotation)))


def test_the_types_of_choices_are_the_values_that_are_accepted(docs):
    for one in by_estimator(docs):
        model = getattr(labelfold, one)
        hints = get_type_hints(model.__init__)
        for name, constraint in model._parameter_constraints.items():
            kinds = constraint if isinstance(constraint, list) else [constraint]
            options = {o for kind in kinds if isinstance(kind, StrOptions) for o in kind.options}
            assert choices(hints[name]) == options, (one, name)


@pytest.mark.parametrize("name", ["LDA", "CCA", "OPLS", "HSL", "KernelPCALS", "LapRLS", "NMFAlpha", "NSDR"])
def test_gamma_is_a_number_or_a_rule(name, rng):
    X = np.abs(rng.normal(size=(40, 5)))
    X[:, 4] += 3
    y = (X[:, 0] > X[:, 1]).astype(int)
    options = {"kernel": "rbf"} | ({"max_iter": 2} if name in ("NMFAlpha", "NSDR") else {})

    def gamma(X, value):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(labelfold, name)(gamma=value, **options).fit(X, y).gamma_

    assert gamma(X, 0.25) == 0.25
    for rule in ("auto", "scale"):
        per_unit = 1 if name == "NSDR" else 100  # its kernel compares embedded rows
        assert gamma(10 * X, rule) == pytest.approx(gamma(X, rule) / per_unit, rel=1e-6)
    if name != "NSDR":
        assert gamma(X, "scale") == pytest.approx(1 / (X.shape[1] * X.var()))
        spread = X.var(axis=0).sum()
        assert gamma(X, "auto") == pytest.approx((8 if name == "NMFAlpha" else 1) / (4 * spread))
    for wrong in (None, "none", 0.0):
        with pytest.raises(
            ValueError, match=r"'gamma' parameter of .* must be a float in the range"
        ) as refused:
            gamma(X, wrong)
        assert "'auto'" in str(refused.value)
        assert "'scale'" in str(refused.value)


@pytest.mark.parametrize("name", ["LDA", "CCA", "OPLS", "HSL", "LapRLS"])
@pytest.mark.parametrize("kernel", [None, "linear", "rbf"])
def test_a_ridge_is_a_number_or_computed_or_chosen(name, kernel, rng):
    X = rng.normal(size=(60, 6)) * [1, 2, 3, 4, 5, 6]
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
    y[40:] = -1
    make = getattr(labelfold, name)
    computed = make(ridge="auto", kernel=kernel).fit(X, y)
    if kernel != "rbf":
        seen = X if name == "LapRLS" else X[:40]
        assert computed.ridge_ == pytest.approx(0.01 * 40 * seen.var(axis=0).sum(), rel=1e-6)
    given = make(ridge=computed.ridge_, kernel=kernel).fit(X, y)
    np.testing.assert_allclose(
        given.decision_function(X), computed.decision_function(X), rtol=1e-9, atol=1e-12
    )
    chosen = make(ridge="cv", kernel=kernel).fit(X, y)
    assert chosen.ridge_ in chosen.ridges_
    assert chosen.ridge_scores_.shape == (5, 9)
    best = chosen.ridge_scores_.mean(axis=0)
    assert best[chosen.ridges_ == chosen.ridge_] == best.max()
    assert make(ridge=[0.5, 2.0], kernel=kernel).fit(X, y).ridge_ in (0.5, 2.0)
