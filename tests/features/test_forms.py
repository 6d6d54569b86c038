"""Column forms: what they make of a row, in every container, and of what they cannot scale."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from labelfold.features import looks_like_counts
from labelfold.features._forms import (
    AsTheyAre,
    Ranks,
    RootCounts,
    TfIdf,
    UnitRows,
    UnitVariance,
)

FORMS = [AsTheyAre, UnitVariance, Ranks, UnitRows, RootCounts, TfIdf]


@pytest.fixture
def counts(rng):
    return rng.poisson(0.4, (40, 12)).astype(np.float64)


@parametrize_with_checks([form() for form in FORMS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("form", FORMS)
def test_every_container_gives_the_same(form, container, counts):
    expected = form().fit_transform(counts)
    made = form().fit(container.make(counts))
    T = made.transform(container.make(counts))
    T = T.toarray() if sparse.issparse(T) else np.asarray(T)
    # Sparse rows are not centred, which unit variance does to dense ones.
    shift = expected.mean(axis=0) - T.mean(axis=0) if form is UnitVariance else 0.0
    np.testing.assert_allclose(T + shift, expected, atol=1e-12)


@pytest.mark.parametrize("form", [UnitVariance, UnitRows, RootCounts, TfIdf])
def test_sparse_rows_stay_sparse(form, counts):
    T = form().fit(sparse.csr_array(counts)).transform(sparse.csr_array(counts))
    assert sparse.issparse(T)
    assert T.nnz == np.count_nonzero(counts)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("learned_from", [np.asarray, sparse.csr_array])
def test_new_rows_may_come_in_another_container(form, learned_from, counts):
    made = form().fit(learned_from(counts))
    T = made.transform(sparse.csr_array(counts))
    np.testing.assert_allclose(T.toarray() if sparse.issparse(T) else T, made.transform(counts), atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_is_formed_by_itself(form, counts):
    made = form().fit(counts)
    np.testing.assert_allclose(made.transform(counts[7:9]), made.transform(counts)[7:9], atol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_the_users_rows_are_not_written_to(form, counts):
    before = counts.copy()
    form().fit_transform(counts)
    np.testing.assert_array_equal(counts, before)
    S = sparse.csr_array(counts)
    form().fit(S).transform(S)
    np.testing.assert_array_equal(S.toarray(), before)


@pytest.mark.parametrize("form", FORMS)
def test_float32_stays_float32(form, counts):
    assert form().fit_transform(counts.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("form", [UnitRows, RootCounts, TfIdf])
def test_unit_rows_are_equal_to_the_last_digit_in_every_container(form, counts):
    X = counts.astype(np.float32)
    model = form().fit(X)
    np.testing.assert_array_equal(model.transform(sparse.csr_array(X)).toarray(), model.transform(X))


def test_unit_variance_is_scikit_learns(rng):
    X = rng.standard_normal((30, 4)) * [1, 10, 1e3, 1e-3] + [0, 5, -1e3, 1]
    np.testing.assert_allclose(UnitVariance().fit_transform(X), StandardScaler().fit_transform(X), atol=1e-9)


def test_constant_columns_become_zero():
    X = np.array([[1e6 + 0.1, 0.1, 0.0], [1e6 + 0.1, 0.2, 0.0], [1e6 + 0.1, 0.4, 0.0]])
    for form in (UnitVariance(), Ranks()):
        T = form.fit_transform(X)
        np.testing.assert_array_equal(T[:, [0, 2]], 0.0)
        assert T[:, 1].std() == pytest.approx(1)


def test_tf_idf_is_scikit_learns(counts):
    counts[3] = 0.0
    expected = TfidfTransformer(sublinear_tf=True).fit_transform(sparse.csr_matrix(counts)).toarray()
    np.testing.assert_allclose(TfIdf().fit_transform(counts), expected, atol=1e-14)
    np.testing.assert_allclose(
        TfIdf().fit(counts).transform(sparse.csr_array(counts)).toarray(), expected, atol=1e-14
    )


def test_root_counts_are_hellingers(counts):
    T = RootCounts().fit_transform(counts)
    full = counts.sum(axis=1) > 0
    np.testing.assert_allclose(
        T[full] ** 2, counts[full] / counts[full].sum(axis=1, keepdims=True), atol=1e-14
    )


def test_empty_rows_stay_empty(counts):
    counts[[0, 5]] = 0.0
    for form in (TfIdf(), RootCounts(), UnitRows()):
        np.testing.assert_array_equal(form.fit_transform(counts)[[0, 5]], 0.0)


def test_ranks_do_not_change_with_monotone_maps(rng):
    X = rng.standard_normal((50, 3))
    np.testing.assert_allclose(Ranks().fit_transform(np.exp(5 * X)), Ranks().fit_transform(X), atol=1e-12)


def test_equal_values_share_their_mean_rank():
    X = np.array([[1.0], [2.0], [2.0], [2.0], [7.0]])
    T = Ranks().fit_transform(X).ravel()
    expected = np.array([0.0, 2.0, 2.0, 2.0, 4.0]) - 2
    np.testing.assert_allclose(T, expected / expected.std(), atol=1e-14)


def test_new_values_lie_between_their_neighbours_and_no_further_than_the_last():
    ranks = Ranks().fit(np.array([[0.0], [1.0], [3.0]]))
    low, middle, high, beyond = ranks.transform(np.array([[0.0], [2.0], [3.0], [1e9]])).ravel()
    assert low < middle < high == beyond


def test_few_points_are_enough_for_the_ranks_of_many_rows(rng, monkeypatch):
    X = rng.standard_normal((5000, 1)) ** 3
    exact = Ranks().fit(X[:1000]).fit_transform(X)
    monkeypatch.setattr("labelfold.features._forms._POINTS", 200)
    monkeypatch.setattr("labelfold.features._forms.np.clip", lambda value, low, high: 200)
    rough = Ranks().fit_transform(X)
    # 200 points leave ranks uncertain by 1/200 of their range, which is 2 root 3 deviations.
    assert np.abs(exact - rough).max() < 2 * np.sqrt(12) / 200


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1, 2], True),
        ([1, 1, 2.5], False),
        ([1, 1, -2], False),
        ([1, 1, 1], False),
        ([1, 9, 16], False),
        ([1] * 20 + [2], False),
        ([], False),
    ],
)
def test_counts_are_known_by_their_values(values, expected):
    X = np.zeros((4, 10))
    X.flat[: len(values)] = values
    assert looks_like_counts(X) is expected
    assert looks_like_counts(sparse.csr_array(X)) is expected
