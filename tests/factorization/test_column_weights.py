"""Weights of the columns of X in scores that are linear in X, and the names that scikit-learn's tools look for."""

import numpy as np
import pytest
import sklearn
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.pipeline import make_pipeline

from labelfold import CNMF, DRSVM, KLNMF, LSDR, NSDR, SSNMF, NMFAlpha

pytestmark = pytest.mark.filterwarnings("ignore:.* stopped after:sklearn.exceptions.ConvergenceWarning")
LINEAR = [
    DRSVM(3, max_iter=30),
    DRSVM(3, max_iter=30, center=True, fit_intercept=True, loss="hinge"),
    LSDR(3),
    LSDR(3, loss="logistic", offset_unit=3.0),
]


def problem(task="multiclass", n=80, d=9, seed=0, shift=5.0):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    X = rng.standard_normal((n, d)) + 2 * rng.standard_normal((3, d))[code] + shift
    known = np.arange(n) % 2 == 0
    if task == "multilabel":
        return X, np.where(known[:, None], np.stack([code == 0, code != 1], axis=1), np.nan)
    return X, np.where(known, code > 0 if task == "binary" else code, -1)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("model", LINEAR)
def test_scores_are_linear_in_the_columns(model, task):
    X, y = problem(task)
    model = sklearn.clone(model).fit(X, y)
    scores = model.decision_function(X)
    q = {"binary": 1, "multiclass": 3, "multilabel": 2}[task]
    assert model.coef_.shape == (q, X.shape[1])
    assert model.intercept_.shape == (q,)
    found = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(found, scores.reshape(found.shape), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", [DRSVM(3, nonnegative=True, max_iter=10), SSNMF(3, max_iter=10)])
def test_a_non_negative_embedding_gives_the_columns_no_weights(model):
    X, y = problem()
    model.fit(np.abs(X), y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "intercept_")
    if isinstance(model, DRSVM):
        with pytest.raises(AttributeError, match="use nonnegative=False, or embedding_coef_"):
            _ = model.coef_


@pytest.mark.parametrize("model", [DRSVM(2), LSDR(2)])
def test_columns_are_selected_by_their_weights(model):
    rng = np.random.default_rng(0)
    n, planted = 300, [2, 7, 11]
    X = rng.standard_normal((n, 14))
    X[:, planted] += 1.5 * rng.standard_normal((n, 1))  # so that the components see the columns
    y = (X[:, planted].sum(axis=1) > 0).astype(int)
    assert RFE(model, n_features_to_select=3, step=11).fit(X, y).get_support(indices=True).tolist() == planted
    chosen = SelectFromModel(model, max_features=3, threshold=-np.inf).fit(X, y)
    assert chosen.get_support(indices=True).tolist() == planted


@pytest.mark.parametrize("kind", [DRSVM, LSDR, NSDR, KLNMF, NMFAlpha, SSNMF, CNMF])
def test_metadata_routing_takes_weights_and_leaves_x_alone(kind):
    X, y = problem(n=40)
    X = np.abs(X)
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        requests = sklearn.utils.metadata_routing.get_routing_for_object(kind(2))._serialize()
        offsets = {"row_offsets": None} if kind in (LSDR, NSDR) else {}
        assert requests.get("inverse_transform", {}) == offsets
        assert requests["fit"] == {"sample_weight": None}
        model = kind(2, max_iter=5).set_fit_request(sample_weight=True)
        routed = make_pipeline(model).fit(X, y, sample_weight=weights)
    plain = kind(2, max_iter=5).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(routed[-1].components_, plain.components_)
    Z = plain.transform(X)
    np.testing.assert_array_equal(plain.inverse_transform(X=Z), plain.inverse_transform(Z))
