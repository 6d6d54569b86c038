"""NMFAlpha.path: each fit starts from the factors of the one before, and the machines are trained once."""

import numpy as np
import pytest
from test_nmf_alpha import TASKS, problem

import labelfold.factorization._nmf_alpha as module
from labelfold import KLNMF, NMFAlpha

pytestmark = pytest.mark.filterwarnings(
    "ignore:(NMFAlpha|KLNMF) stopped after:sklearn.exceptions.ConvergenceWarning"
)
OPTIONS = {"max_iter": 15, "tol": 0, "corrected": False}


@pytest.mark.parametrize("task", TASKS)
def test_each_fit_starts_from_the_factors_of_the_one_before(task):
    X, y, _ = problem(task)
    first, second = NMFAlpha(3, **OPTIONS).path(X, y, [0.5, 2.0])
    unit = NMFAlpha(3, **OPTIONS).fit(X, y).supervision_
    assert (first.supervision, second.supervision) == pytest.approx((0.5 * unit, 2 * unit))
    cold = NMFAlpha(3, supervision=0.5 * unit, **OPTIONS).fit(X, y)
    np.testing.assert_allclose(first.components_, cold.components_, rtol=1e-9)
    start = first.embedding_, first.components_.T
    warm = NMFAlpha(3, supervision=2 * unit, init=start, **OPTIONS).fit(X, y)
    np.testing.assert_allclose(second.components_, warm.components_, rtol=1e-9)
    np.testing.assert_allclose(second.objective_, warm.objective_, rtol=1e-9)
    np.testing.assert_array_equal(second.dual_coef_.toarray(), warm.dual_coef_.toarray())


def test_a_model_of_the_path_is_a_fitted_one():
    X, y, _ = problem("multiclass")
    (model,) = NMFAlpha(3, max_iter=15, tol=0).path(X, y, [1.0])
    plain = NMFAlpha(3, max_iter=15, tol=0).fit(X, y)
    np.testing.assert_allclose(model.transform(X), plain.transform(X), rtol=1e-9)
    np.testing.assert_allclose(model.embedding_, plain.embedding_, rtol=1e-9)
    np.testing.assert_array_equal(model.classes_, plain.classes_)
    assert model.n_features_in_ == X.shape[1]


def test_the_machines_are_trained_once(monkeypatch):
    X, y, _ = problem()
    calls = []

    def counted(*args, **options):
        calls.append(args)
        return dual_directions(*args, **options)

    dual_directions = module.dual_directions
    monkeypatch.setattr(module, "dual_directions", counted)
    NMFAlpha(3, **OPTIONS).path(X, y, [0.1, 1.0, 10.0])
    assert len(calls) == 1


def test_a_multiple_of_0_is_unsupervised():
    X, y, _ = problem()
    none, some = NMFAlpha(3, **OPTIONS).path(X, y, [0, 1])
    np.testing.assert_array_equal(none.components_, KLNMF(3, max_iter=15, tol=0).fit(X).components_)
    assert none.supervision_ == none.dual_coef_.shape[1] == 0
    assert some.supervision_ > 0
    assert some.dual_coef_.shape[1] == 2


def test_a_joint_path_may_begin_unsupervised():
    X, y, _ = problem(n=40, d=12, n_labelled=15)
    none, some = NMFAlpha(3, joint=True, max_iter=3, tol=0).path(X, y, [0, 1])
    assert none.dual_coef_.shape[1] == 0
    assert some.dual_coef_.shape[1] == 2


def test_a_joint_path_goes_on_with_the_dual_variables():
    X, y, _ = problem(n=40, d=12, n_labelled=15)
    options = {"joint": True, "max_iter": 3, "tol": 0, "corrected": False}
    first, second = NMFAlpha(3, **options).path(X, y, [0.5, 0.5])
    # The same weight again: the second goes on where the first ended.
    longer = NMFAlpha(3, **options | {"max_iter": 6}).path(X, y, [0.5])[0]
    np.testing.assert_allclose([*first.objective_, *second.objective_], longer.objective_, rtol=1e-9)
    np.testing.assert_allclose(
        second.dual_coef_.toarray(), longer.dual_coef_.toarray(), atol=1e-6 * longer.dual_coef_.max()
    )


def test_a_path_is_the_same_in_every_container(container):
    X, y, _ = problem("multiclass", n=40, d=12, n_labelled=15)
    options = {"max_iter": 4, "tol": 0, "corrected": False}
    plain, held = (NMFAlpha(3, **options).path(rows, y, [0.3, 3.0]) for rows in (X, container.make(X)))
    for one, other in zip(plain, held, strict=True):
        np.testing.assert_allclose(other.objective_, one.objective_, rtol=1e-6)


@pytest.mark.parametrize("multiples", [[], [-1.0], [np.nan], 1.0, "auto"])
def test_multiples_that_are_none(multiples):
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r"multiples=.* where a sequence of finite numbers of at least 0"):
        NMFAlpha(3).path(X, y, multiples)


def test_parameters_are_checked():
    X, y, _ = problem()
    with pytest.raises(ValueError, match="n_components"):
        NMFAlpha(0).path(X, y, [1.0])
