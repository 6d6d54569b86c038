"""The registry and its adapters: every method keeps the same contract, on labels with gaps."""

import pickle
import re
import sys
import zipfile
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.semi_supervised import LabelPropagation, LabelSpreading
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import labelfold
from labelfold import LDA, PCALS, LapRLS
from labelfold.app.compare._held_out import predict_with_confidence
from labelfold.app.registry._adapters import (
    OnClassCodes,
    OnLabelledRows,
    PerLabel,
    ReduceThenClassify,
    only_missing,
    score_of,
)
from labelfold.app.registry._method import Facts
from labelfold.app.registry._methods import METHODS, get_method, ranked_methods
from labelfold.app.registry._predictors import Trees
from labelfold.app.registry._reducers import ScikitLDA, SupervisedUMAP
from labelfold.app.registry._tuned import Tuned, UnitSpread, _rows_to_tune_on, around, without_tuning
from labelfold.labels import read_labels
from labelfold.saved import public_paths

BASELINES = ("rbf-svm", "logistic", "extra-trees", "random-forest", "naive-bayes")
FACTS = Facts(n_rows=150, n_columns=4, n_labelled=45, n_classes=3)
AVAILABLE = [m for m in ranked_methods() if m.available]
NAMES = [m.name for m in AVAILABLE if m.why_not_task("classification") is None]
REGRESSORS = [m.name for m in AVAILABLE if m.why_not_task("regression") is None]


def needs(method, **facts):
    """Skip where the method itself says that it does not suit such data."""
    reason = method.why_not(replace(FACTS, **facts))
    if reason and "gives what LDA gives" not in reason:
        pytest.skip(reason)


@pytest.fixture
def data():
    X, y = load_iris(return_X_y=True)
    hidden = np.random.default_rng(0).random(len(y)) < 0.7
    return X, np.where(hidden, -1, y), y


def test_the_registry_is_complete():
    assert {"lda", "pca-svm", "svm"} <= set(NAMES)
    assert {"nmf-alpha", "klnmf", "ssnmf", "cnmf"} <= set(NAMES)
    assert {name for name, method in METHODS.items() if method.needs is None} <= {*NAMES, *REGRESSORS}
    assert {"labelfold", "ridge", "svr", "pca-ridge", "extra-trees", "opls", "pcals", "laprls"} <= set(
        REGRESSORS
    )
    assert len(METHODS) >= 35
    assert sorted(METHODS) == sorted(method.name for method in ranked_methods())
    for name, method in METHODS.items():
        assert name == method.name == name.lower()
        assert method.summary.endswith(".")
        assert method.gloss
        assert method.use
        assert method.paper
        assert method.labels in ("supervised", "semi-supervised")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["dense", "sparse", "scaled", "float32 and strings"])
def test_every_method_fits_labels_with_gaps(data, name, kind, request):
    X, y, _ = data
    if kind != "dense":
        request.getfixturevalue("quick_tuning_here")
    method = get_method(name)
    needs(method, sparse=kind == "sparse", nonnegative=kind != "scaled")
    if kind == "sparse":
        X = sp.csr_array(X)
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    elif kind == "float32 and strings":
        X = X.astype(np.float32)
        y = np.where(y < 0, None, np.array(["p", "q", "r"], dtype=object)[y])
    model = method.make(2, X=X, scale=kind == "scaled").fit(X, y)
    assert hasattr(model, "transform") == method.embeds
    if method.embeds:
        assert model.transform(X).shape == (150, 2)
    classes = {"p", "q", "r"} if "strings" in kind else {0, 1, 2}
    assert set(model.classes_) == classes
    assert set(model.predict(X)) <= classes


@pytest.mark.parametrize(
    ("name", "scale"),
    [
        *((n, False) for n in NAMES if METHODS[n].needs is None),
        *(("lda", True), ("nmf-svm", True), ("lda", "ranks"), ("nmf-svm", "ranks"), ("ssnmf", "tf-idf")),
    ],
)
@pytest.mark.usefixtures("quick_tuning_here")
def test_every_method_is_saved_and_loaded_and_names_its_components(data, tmp_path, name, scale):
    X, y = load_iris(as_frame=True).data, data[1]
    method = get_method(name)
    tuned = method.make(2, X=X, scale=scale).fit(X, y)
    for model in (tuned, without_tuning(tuned)):
        path = labelfold.save(model, tmp_path / "model.skops")
        loaded = labelfold.load(path)
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        if method.embeds:
            np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
            assert len(set(loaded.get_feature_names_out())) == 2
        with zipfile.ZipFile(path) as archive:
            named = re.findall(r'"(labelfold[^"\\]*)', archive.read("schema.json").decode())
        assert set(named) <= {"labelfold", "labelfold.saved", *public_paths()}


def test_simple_methods_are_preferred():
    names = [method.name for method in ranked_methods()]
    assert names[:6] == ["labelfold", "lda", "pca-svm", "svm", "rbf-svm", "logistic"]
    assert names.index("sklearn-lda") > names.index("opls") > names.index("naive-bayes")
    assert names[-3:] == ["ssnmf", "cnmf", "tsvm"]


def test_candidates_of_a_penalty():
    assert around(1.0) == (1.0, 10.0, 0.1, 100.0, 0.01)
    assert around(0.01) == (0.01, 0.1, 0.001, 1.0, 1e-4)
    assert around(4.0, 1 / 4) == (4.0, 1.0, 16.0, 0.25, 64.0)


def test_forms_of_the_columns_suit_the_method():
    rng = np.random.default_rng(0)
    X = rng.lognormal(0, 2, size=(60, 4))
    ranks = get_method("lda").make(X=X, scale="ranks")[0].fit_transform(X)
    np.testing.assert_allclose(ranks.mean(axis=0), 0, atol=1e-12)
    from_zero = get_method("nmf-svm").make(X=X, scale="ranks")[0].fit_transform(X)
    np.testing.assert_allclose(from_zero, ranks - ranks.min(axis=0), atol=1e-12)
    with pytest.raises(
        ValueError, match="'ranks' was given with a sparse X, where a dense one is expected; pass"
    ):
        get_method("lda").make(X=sp.csr_array(X), scale="ranks")
    with pytest.raises(
        ValueError, match=r"scale='zscore' was given, where .* as they are, unit variance, ranks"
    ):
        get_method("lda").make(X=X, scale="zscore")
    counts = sp.csr_array(rng.poisson(0.2, size=(30, 9)).astype(float))
    weighed = get_method("svm").make(X=counts, scale="tf-idf")[0].fit_transform(counts)
    assert sp.issparse(weighed)
    np.testing.assert_allclose(np.sqrt(weighed.multiply(weighed).sum(axis=1)), np.diff(counts.indptr) > 0)
    assert not isinstance(get_method("naive-bayes").make(X=counts, scale="tf-idf"), Pipeline)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("quick_tuning_here")
def test_the_same_seed_gives_the_same_model(data, name):
    X, y, _ = data
    first, second = (get_method(name).make(2, X=X, random_state=7).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("quick_tuning_here")
def test_unlabelled_rows_do_not_reach_the_classifier(data, name):
    """Gaps must change nothing for a supervised method; wrong labels in their place must."""
    X, y, _ = data
    method = get_method(name)
    labelled = y >= 0
    gaps = method.make(2, X=X).fit(X, y)
    if method.labels == "supervised":
        alone = method.make(2, X=X).fit(X[labelled], y[labelled])
        np.testing.assert_array_equal(gaps.predict(X), alone.predict(X))
    wrong = method.make(2, X=X).fit(X, np.where(labelled, y, 0))
    assert np.mean(wrong.predict(X) == 0) > np.mean(gaps.predict(X) == 0)


def test_pca_sees_all_rows_and_svd_replaces_it_for_sparse(data):
    X, y, _ = data
    dense = get_method("pca-svm").make(2, X=X).fit(X, y)
    np.testing.assert_allclose(dense.transform(X), PCA(2, random_state=0).fit_transform(X))
    sparse = get_method("pca-svm").make(2, X=sp.csr_array(X))
    assert isinstance(sparse.reducer, TruncatedSVD)


@pytest.mark.parametrize("sparse", [False, True])
def test_more_components_than_columns(data, sparse):
    X, y, _ = data
    X = sp.csr_array(X) if sparse else X
    model = get_method("pca-svm").make(99, X=X).fit(X, y)
    assert model.transform(X).shape[1] == (3 if sparse else 4)


def test_a_penalty_by_hand_replaces_tuning(data):
    X, _, _ = data
    assert get_method("lda").make(2, X=X, ridge=0.5).ridge == 0.5
    assert get_method("svm").make(X=X, C=3.0).classifier.estimator.C == 3.0
    with pytest.raises(ValueError, match="'svm' has no parameter 'ridge'"):
        get_method("svm").make(X=X, ridge=0.5)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ldaa", r"no method 'ldaa' \(did you mean 'lda'\?\)"),
        ("zzz", r"no method 'zzz'; there are"),
    ],
)
def test_unknown_methods(name, words):
    with pytest.raises(ValueError, match=words):
        get_method(name)


@pytest.mark.parametrize(
    "estimator",
    [
        OnLabelledRows(),
        ReduceThenClassify(),
        Tuned(LinearSVC(random_state=0), "C", (1.0, 0.1), power=-1),
        PerLabel(LinearSVC(random_state=0)),
        PerLabel(MultinomialNB()),
        Trees(n_estimators=10, random_state=0),
        ScikitLDA(),
        OnClassCodes(LabelSpreading(kernel="knn")),
        OnClassCodes(LabelSpreading()),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_the_adapters_pass_scikit_learns_checks(estimator):
    excepted = {}
    if isinstance(estimator, Trees):
        reason = "trees that agree are sure: 0 and 1, which the check of label columns does not allow"
        pure = (
            "leaves of full trees hold one class whatever it weighs; the check needs min_weight_fraction_leaf"
        )
        excepted = {
            "check_classifiers_multilabel_output_format_predict_proba": reason,
            "check_class_weight_classifiers": pure,
        }
    check_estimator(estimator, expected_failed_checks=excepted)


def test_tuning_follows_the_units_of_the_data(data):
    X, y, _ = data
    for power, parameter, estimator in ((1, "ridge", LDA()), (-1, "C", LinearSVC(random_state=0))):
        tuned = [
            Tuned(clone(estimator), parameter, (1.0, 0.01), power=power, random_state=0).fit(
                unit * X[y >= 0], y[y >= 0]
            )
            for unit in (1.0, 1000.0)
        ]
        ratio = tuned[1].best_value_ / tuned[0].best_value_
        assert ratio == pytest.approx(1000.0 ** (2 * power))


def test_tuning_takes_the_best_candidate_and_the_first_of_equals(data):
    X, _, y = data

    class Scripted(LinearSVC):
        def predict(self, X):
            right = super().predict(X)
            return right if self.C == 2.0 else np.zeros_like(right)

    tuned = Tuned(Scripted(max_iter=20000), "C", (1.0, 2.0, 3.0), power=0, random_state=0).fit(X, y)
    assert tuned.best_value_ == 2.0
    assert tuned.scores_[1] > tuned.scores_[0] == tuned.scores_[2]
    flat = Tuned(Scripted(max_iter=20000), "C", (3.0, 1.0), power=0, random_state=0).fit(X, y)
    assert flat.best_value_ == 3.0


def test_tuning_that_hides_keeps_all_rows(data):
    """Candidates see every row, the labels of one fold hidden; each label is hidden once for each candidate."""
    X, y, truth = data
    seen = []

    class Watched(LDA):
        def fit(self, X, y):
            seen.append((len(X), np.array(y)))
            return super().fit(X, y)

        @property
        def path(self):
            raise AttributeError("each candidate is fitted by itself")

    tuned = Tuned(Watched(), "ridge", (1.0, 9.0), power=0, hide=True, random_state=0).fit(X, y)
    *tried, last = seen
    assert len(tried) == 2 * 5
    assert all(n == len(X) for n, _ in seen)
    np.testing.assert_array_equal(last[1], y)
    hidden = sum((y >= 0) & np.isnan(fold) for _, fold in tried)
    np.testing.assert_array_equal(hidden, np.where(y >= 0, 2, 0))
    for _, fold in tried:
        np.testing.assert_array_equal(fold[fold >= 0], truth[fold >= 0])
    # LDA sees labelled rows only, and fits all candidates of a fold at once
    alone = Tuned(LDA(), "ridge", (1.0, 9.0), power=0, repeats=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(tuned.scores_, alone.scores_)


@pytest.mark.parametrize(
    ("name", "peer"), [("grf", LabelPropagation()), ("llgc", LabelSpreading(alpha=0.99, max_iter=1000))]
)
def test_graph_methods_are_scikit_learns(data, name, peer):
    X, y, _ = data
    Z = UnitSpread().fit_transform(X)
    expected = peer.set_params(gamma=4.0).fit(Z, y)
    model = get_method(name).make(X=X, gamma=4.0).fit(X, np.where(y < 0, None, y))
    np.testing.assert_array_equal(model[-1].transduction_, expected.transduction_)
    np.testing.assert_array_equal(model.predict(X), expected.predict(Z))


def test_many_rows_change_how_graph_and_kernel_methods_are_made(data, monkeypatch):
    """Where an n x n matrix would not fit: neighbours, and landmarks."""
    X, y, _ = data
    monkeypatch.setattr("labelfold.app.registry._predictors.MAX_GRAM_BYTES", 8 * 149**2)
    for name in ("grf", "llgc"):
        model = get_method(name).make(X=X)
        assert model.estimator.kernel == "knn"
        assert set(model.fit(X, y).predict(X)) <= {0, 1, 2}
    for name in ("kernel-laprls", "kernel-pcals"):
        model = get_method(name).make(2, X=X)
        model = getattr(model, "estimator", model).set_params(max_gram_bytes=8 * 149**2)
        assert isinstance(model.fit(X, y).feature_map_, Nystroem)


def test_pca_rls_is_least_squares_on_principal_components(data):
    X, y, _ = data
    known = y >= 0
    Z = PCA(2).fit_transform(X)
    peer = RidgeClassifier(0.3).fit(Z[known], y[known])
    model = get_method("pca-rls").make(2, X=X, ridge=0.3).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), peer.predict(Z))


def test_baselines_with_a_penalty_by_hand_are_scikit_learns(data):
    X, y, _ = data
    known = y >= 0
    unit = UnitSpread().fit(X[known])
    peers = {
        "rbf-svm": ({"C": 5.0}, SVC(C=5.0), unit),
        "logistic": ({"C": 5.0}, LogisticRegression(C=5.0, max_iter=1000), FunctionTransformer()),
        "naive-bayes": ({"alpha": 0.5}, MultinomialNB(alpha=0.5), FunctionTransformer()),
    }
    for name, (penalty, peer, change) in peers.items():
        model = get_method(name).make(X=X, **penalty).fit(X, y)
        if name == "rbf-svm":  # its width is tuned all the same
            C, gamma = model.classifier_.best_value_
            assert C == 5.0
            peer.set_params(gamma=gamma)
        peer.fit(change.transform(X[known]), y[known])
        ask = "decision_function" if name == "rbf-svm" else "predict_proba"
        np.testing.assert_array_equal(getattr(model, ask)(X), getattr(peer, ask)(change.transform(X)))


@pytest.mark.parametrize(
    ("kind", "peer"), [("extra trees", ExtraTreesClassifier), ("random forest", RandomForestClassifier)]
)
@pytest.mark.parametrize("task", ["classes", "labels", "one leaf"])
@pytest.mark.parametrize("sparse", [False, True])
def test_trees_as_arrays_say_what_scikit_learns_say(data, kind, peer, task, sparse):
    X, _, y = data
    target = (
        np.column_stack([y == 0, y > 0, X[:, 0] > 5.8, y < 3, y < 0]).astype(int) if task == "labels" else y
    )
    X = sp.csr_array(X) if sparse else X
    rows = slice(0, 3) if task == "one leaf" else slice(None, None, 3)
    model = Trees(kind, n_estimators=15, random_state=3).fit(X[rows], target[rows])
    peer = peer(15, random_state=3).fit(X[rows], target[rows])
    expected = peer.predict_proba(X)
    if task == "labels":
        expected = np.column_stack([p @ c for p, c in zip(expected, peer.classes_, strict=True)])
    # sums of 15 shares, in another order
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=15 * np.finfo(float).eps)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


def test_trees_from_a_file_stay_within_their_arrays(data):
    """Whatever numbers a file holds, a tree ends and reads nothing outside its arrays."""
    X, _, y = data
    model = Trees(n_estimators=5, random_state=0).fit(X, y)
    nodes = model.nodes_
    nodes.left[:] = nodes.right[:] = 0
    model.nodes_ = pickle.loads(pickle.dumps(nodes))  # as from a file
    assert len(model.predict(X)) == 150
    for wrong in (10**9, -1, len(nodes.left)):
        nodes.left[:] = nodes.right[:] = wrong
        model.nodes_ = pickle.loads(pickle.dumps(nodes))
        with pytest.raises(IndexError):
            model.predict(X)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("kind", ["strings", "sparse", "labels"])
@pytest.mark.usefixtures("quick_tuning_here")
def test_baselines_are_saved_with_their_confidence(data, tmp_path, name, kind):
    X, y, _ = data
    if kind == "strings":
        y = np.where(y < 0, None, np.array(["p", "q", "r"], dtype=object)[y])
    elif kind == "sparse":
        X = sp.csr_array(X)
    else:
        y = np.where(y[:, None] < 0, np.nan, np.column_stack([y == 0, y > 0, y < 3]))
    model = without_tuning(get_method(name).make(X=X).fit(X, y))
    loaded = labelfold.load(labelfold.save(model, tmp_path / "model.skops"))
    predicted, confidence = predict_with_confidence(model, X)
    again, as_sure = predict_with_confidence(loaded, X)
    np.testing.assert_array_equal(again, predicted)
    np.testing.assert_array_equal(as_sure, confidence)
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert len(np.unique(confidence)) > 5
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        assert shares.shape == (150, 3)
        if kind == "labels":
            np.testing.assert_array_equal(predicted, shares > 0.5)
            np.testing.assert_array_equal(confidence, np.maximum(shares, 1 - shares).prod(axis=1))
        else:
            np.testing.assert_array_equal(predicted, model.classes_[shares.argmax(axis=1)])
    else:
        assert name == "rbf-svm"


def test_two_parameters_are_tuned_together(data):
    X, _, y = data

    class Scripted(SVC):
        def predict(self, X):
            right = super().predict(X)
            return right if (self.C, self.gamma) == (2.0, 0.5) else np.zeros_like(right)

    grid = ((1.0, 0.5), (2.0, 0.1), (2.0, 0.5), (1.0, 0.1))
    tuned = Tuned(Scripted(), ("C", "gamma"), grid, power=0, random_state=0).fit(X, y)
    assert tuned.best_value_ == [2.0, 0.5]
    assert (tuned.estimator_.C, tuned.estimator_.gamma) == (2.0, 0.5)
    assert np.argmax(tuned.scores_) == 2
    spread = X.var(axis=0).sum()
    scaled = Tuned(SVC(), ("C", "gamma"), ((1.0, 0.5),), power=(0, -1), random_state=0).fit(X, y)
    assert scaled.best_value_ == pytest.approx([1.0, 0.5 / spread])


def test_pcals_through_the_registry_is_the_estimator():
    """Two Gaussian classes whose means differ by little in each of many columns, as in the SSL book's g241d."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1000)
    X = rng.standard_normal((1000, 241)) + np.outer(2 * y - 1, np.full(241, 0.1))
    few = np.where(np.arange(1000) < 100, y, -1)
    found = METHODS["pcals"].make(2, X=X, random_state=0).fit(X, few).predict(X)
    np.testing.assert_array_equal(found, PCALS(2, random_state=0).fit(X, few).predict(X))
    # sqrt(241) * 0.1 = 1.55 standard deviations from the middle: 94% is the best there is
    assert (found == y)[100:].mean() > 0.85


def test_lda_with_one_label_a_class_does_as_a_linear_svm_does():
    X, y = load_digits(return_X_y=True)
    right = {"lda": [], "svm": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        known = [rng.choice(np.flatnonzero(y == c)) for c in range(10)]
        few = np.full(len(y), -1)
        few[known] = y[known]
        for name in right:
            model = METHODS[name].make(9 if name == "lda" else None, X=X, random_state=0).fit(X, few)
            right[name].append(np.mean(model.predict(X) == y))
    assert np.mean(right["lda"]) > np.mean(right["svm"]) - 0.02


def test_a_class_with_one_label_does_not_keep_the_others_from_tuning(data):
    X, _, y = data
    few = np.full(len(y), -1)
    few[[0, *range(50, 60), *range(100, 110)]] = y[[0, *range(50, 60), *range(100, 110)]]
    tuned = Tuned(LDA(), "ridge", (1e9, 1e-3), power=0, random_state=0).fit(X, few)
    assert len(tuned.scores_) == 2
    assert np.isfinite(tuned.scores_).all()


def test_candidates_by_the_number_of_labels_and_a_fallback(data):
    X, _, y = data
    few = np.where(np.arange(len(y)) % 3 == 0, y, -1)
    unit = X.var(axis=0).sum()
    tuned = Tuned(LapRLS(), "ridge", (0.01,), per_label=True, hide=True, random_state=0).fit(X, few)
    assert tuned.best_value_ == pytest.approx(0.01 * 50 * unit)
    lone = np.full(len(y), -1)
    lone[[0, 60, 120]] = y[[0, 60, 120]]
    tuned = Tuned(LapRLS(), "ridge", (0.01,), fallback="auto", hide=True).fit(X, lone)
    assert tuned.best_value_ == "auto"
    assert tuned.estimator_.ridge_ == pytest.approx(0.01 * 3 * unit)


def test_one_label_a_class_takes_the_first_candidate(data):
    X, _, y = data
    few = np.full(len(y), -1)
    few[[0, 60, 120]] = y[[0, 60, 120]]
    tuned = Tuned(LDA(), "ridge", (0.5, 5.0), power=0).fit(X, few)
    assert tuned.best_value_ == 0.5
    assert len(tuned.scores_) == 0


def test_without_tuning_it_is_the_chosen_model_with_its_column_names(data):
    _, y, _ = data
    X = load_iris(as_frame=True).data
    model = get_method("lda").make(2, X=X).fit(X, y)
    chosen = without_tuning(model)
    assert type(chosen) is LDA
    assert chosen.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(chosen.transform(X), model.transform(X))
    scaled = without_tuning(get_method("lda").make(2, X=X, scale=True).fit(X, y))
    assert isinstance(scaled, Pipeline)
    assert type(scaled[-1]) is LDA
    reduced = get_method("pca-svm").make(2, X=X).fit(X, y)
    assert isinstance(without_tuning(reduced).classifier_[-1].estimator, LinearSVC)
    assert isinstance(reduced.classifier_, Tuned)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("quick_tuning_here")
def test_the_unit_of_the_data_does_not_matter(data, name):
    X, y, _ = data
    # powers of two, so that the numbers are the same but for their exponent
    first, *others = (
        get_method(name).make(2, X=X).fit(X * s, y).predict(X * s) for s in (1.0, 2.0**-20, 2.0**20)
    )
    for other in others:
        assert np.mean(first == other) > 0.98


def test_unit_spread_keeps_scikit_learns_contract():
    check_estimator(UnitSpread())


SEVERAL = [m.name for m in AVAILABLE if not m.why_not(replace(FACTS, multilabel=True))]


def test_methods_for_several_labels_a_row():
    assert {"cca", "opls", "hsl", "drsvm", "svm", "pca-svm", "nmf-svm"} <= set(SEVERAL)
    assert set(BASELINES) <= set(SEVERAL)
    assert not {"lda", "ssdr", "sklearn-lda", "label-spreading"} & set(SEVERAL)


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.usefixtures("quick_tuning_here")
def test_several_labels_a_row(data, name):
    X, _, y = data
    Y = np.column_stack([y == 0, y > 0, X[:, 0] > 5.8]).astype(float)
    truth = Y.copy()
    Y[np.random.default_rng(0).random(150) < 0.5] = np.nan
    model = get_method(name).make(2, X=X).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == (150, 3)
    assert set(np.unique(predicted)) <= {0, 1}
    assert score_of(truth, predicted) > 0.8


def test_a_label_nobody_or_everybody_has():
    X = np.eye(4)
    Y = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1], [1, 0, 0]])
    model = PerLabel(LinearSVC(random_state=0)).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X)[:, :2], Y[:, :2])


def test_what_does_not_suit_says_why():
    def reason(name, **facts):
        return METHODS[name].why_not(replace(FACTS, **facts))

    assert reason("lda") is None
    assert "no negative numbers" in reason("nmf-svm", nonnegative=False)
    assert "dense" in reason("sklearn-lda", sparse=True)
    assert "3,000 columns" in reason("sklearn-lda", n_columns=5000)
    assert "20,000 rows" in reason("label-spreading", n_rows=30_000)
    assert "what LDA gives" in reason("cca")
    assert "several labels a row" in reason("lda", multilabel=True)
    assert reason("naive-bayes") is None
    assert "not whole" in reason("naive-bayes", whole=False)
    assert "no negative numbers" in reason("naive-bayes", nonnegative=False)
    assert "10,000 labelled rows" in reason("rbf-svm", n_labelled=20_000)
    assert (
        reason("nmf-svm", sparse=True, n_rows=10**6, n_columns=10**6) is None
    )  # nothing of that size is made


def test_facts_are_read_from_the_data():
    labels = read_labels([0, 1, -1])
    X = np.array([[1.0, 0], [0, 2], [3, 0]])
    facts = Facts.of(X, labels)
    assert (facts.n_rows, facts.n_columns, facts.n_labelled, facts.n_classes) == (3, 2, 2, 2)
    assert facts.nonnegative
    assert not facts.sparse
    assert facts.whole
    assert not Facts.of(np.where(X == 3, 2.5, X), labels).whole
    assert not Facts.of(0.3 * sp.csr_array(X), labels).whole
    assert not Facts.of(-X, labels).nonnegative
    assert not Facts.of(-sp.csr_array(X), labels).nonnegative


def test_umap_is_offered_where_it_is_installed(data, monkeypatch):
    """A stand-in with UMAP's interface: it is told the labels, and gets the older kind of sparse matrix."""
    import labelfold.app.registry._method

    told = []

    class UMAP:
        def __init__(self, n_components, n_neighbors, random_state, n_jobs):
            self.k = n_components
            told.append((n_neighbors, random_state, n_jobs))

        def fit(self, X, y):
            assert not isinstance(X, sp.sparray)
            told.append(y)
            return self

        def transform(self, X):
            assert not isinstance(X, sp.sparray)
            return (X.toarray() if sp.issparse(X) else X)[:, : self.k]

    X, y, _ = data
    monkeypatch.setattr(labelfold.app.registry._method, "find_spec", lambda name: None)
    assert not METHODS["umap"].available
    with pytest.raises(ValueError, match="pip install umap-learn"):
        get_method("umap")
    assert "umap" not in [m.name for m in ranked_methods() if m.available]
    monkeypatch.setattr(labelfold.app.registry._method, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=UMAP))
    for rows in (X, sp.csr_array(X)):
        model = get_method("umap").make(2, X=rows).fit(rows, y)
        assert model.transform(rows).shape == (150, 2)
        assert set(model.predict(rows)) <= {0, 1, 2}
    np.testing.assert_array_equal(told[1], y)
    assert told[0] == (15, 0, 1)
    assert SupervisedUMAP(3).fit(X[:5], y[:5]).umap_.k == 3
    assert told[-2][0] == 4  # no more neighbours than other rows


@pytest.fixture(scope="module")
def blobs():
    """Three classes that differ along the 3rd and 4th of ten columns, which vary least of the first four."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = rng.standard_normal((240, 10)) * np.array([9.0, 8.0, 1.0, 1.0, *6 * [0.1]])
    X[:, 2:4] += 6 * np.array([[1, 0], [0, 1], [-1, -1]])[y]
    return X, np.where(np.arange(240) < 60, y, -1), y


@pytest.mark.parametrize("name", ["pca-svm", "pca-rls", "pcals", "drsvm", "lsdr", "nsdr"])
def test_the_number_of_components_is_chosen_from_the_labels(blobs, name):
    """Two components hold next to nothing of the classes, ten all of it."""
    X, few, y = blobs
    model = METHODS[name].make(X=X, random_state=0).fit(X, few)
    assert model.transform(X).shape[1] > 2
    assert (
        np.mean(model.predict(X) == y) > 0.9 > np.mean(METHODS[name].make(2, X=X).fit(X, few).predict(X) == y)
    )


@pytest.mark.parametrize("name", ["pca-svm", "drsvm", "ssdr", "nmf-svm"])
def test_the_number_of_components_without_a_label_to_spare(blobs, name):
    X, _, y = blobs
    X = X - X.min()
    few = np.where(np.arange(len(y)) < 3, y, -1)
    size = 10 if name == "ssdr" else 4
    assert METHODS[name].make(X=X).fit(X, few).transform(X).shape[1] == size


def test_a_size_is_chosen_together_with_another_parameter(blobs):
    X, few, _ = blobs
    names, grid = ("n_components", "reconstruction"), ((2, 0.1), (4, 10.0), (2, 10.0), (4, 0.1))
    tuned = Tuned(PCALS(), names, grid, power=(0, 1), hide=True, random_state=0).fit(X, few)
    assert isinstance(tuned.best_value_[0], int)
    assert len(set(tuned.scores_)) > 1


def test_tsvm_is_tuned_with_unlabelled_rows(blobs):
    X, few, _ = blobs
    tuned = METHODS["tsvm"].make(X=X)
    assert tuned.hide
    assert METHODS["tsvm"].make(X=X, C=2.0).get_params()["C"] == 2.0
    assert tuned.fit(X, few).score(X[few >= 0], few[few >= 0]) > 0.5


def test_kernel_pcals_chooses_its_width(blobs):
    X, few, _ = blobs
    spread = X.var(axis=0).sum()
    model = METHODS["kernel-pcals"].make(2, X=X).fit(X, few)
    assert model.best_value_[0] == 2
    assert model.best_value_[1] * spread in (pytest.approx(0.25), pytest.approx(1.0))
    assert model.estimator_.gamma_ == model.best_value_[1]
    one_each = np.where(np.arange(len(few)) < 3, few, -1)
    kept = METHODS["kernel-pcals"].make(2, X=X).fit(X, one_each)  # no label can be spared: the size stays
    assert kept.estimator_.n_components == 2


def test_few_of_the_rows_without_a_label_help_to_choose(blobs):
    X, few, _ = blobs
    sizes = []

    class Watched(PCALS):
        def fit(self, X, y):
            sizes.append(len(X))
            return super().fit(X, y)

    Tuned(Watched(), "n_components", (2, 3), power=0, hide=True, most_unlabeled=50).fit(X, few)
    assert sizes == [60 + 50] * 10 + [240]


@pytest.mark.parametrize("name", ["ssdr", "ssnmf", "grf", "pcals"])
@pytest.mark.usefixtures("quick_tuning_here")
def test_minus_one_may_be_a_class(data, name):
    """Class codes that reducers and folds are told must not be mistaken for classes."""
    X, y, truth = data
    hidden = y < 0
    text, shifted = truth.astype(str).astype(object), (truth - 1).astype(object)
    text[hidden] = shifted[hidden] = None
    named = METHODS[name].make(2, X=X).fit(X, text).predict(X)
    numbered = only_missing(METHODS[name].make(2, X=X)).fit(X, shifted).predict(X)
    np.testing.assert_array_equal(named.astype(int), numbered + 1)


@pytest.mark.parametrize("counts", [[900, 90, 10], [1, 500, 2]])
def test_tuning_looks_at_so_many_rows_and_no_more(counts):
    known = np.random.default_rng(0).permutation(np.repeat(range(len(counts)), counts))
    some = _rows_to_tune_on(known, 100, 0)
    kept = np.bincount(known[some])
    assert kept.tolist() == [min(c, max(2, round(c * 100 / sum(counts)))) for c in counts]
    assert len(set(some)) == len(some)
    assert _rows_to_tune_on(known, 10_000, 0) == slice(None)
    assert len(_rows_to_tune_on(np.eye(300), 50, 0)) == 50


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_regressor_takes_gaps_whole_numbers_and_any_unit_and_is_saved(tmp_path, name, kind, request):
    if kind != "dense":
        request.getfixturevalue("quick_tuning_here")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 4))
    truth = np.round(20 * X[:, 0] + 10 * X[:, 1])
    y = np.where(np.arange(60) < 40, truth, np.nan)
    X = sp.csr_array(X) if kind == "sparse" else X
    method = get_method(name)
    if reason := replace(method, suits=None).why_not(replace(FACTS, sparse=kind == "sparse", numbers=True)):
        pytest.skip(reason)
    k = 1 if method.directions == "limit" else 2
    model = method.make(k, X=X, task="regression").fit(X, y)
    assert not hasattr(model, "classes_")
    said = model.predict(X)
    assert said.shape == (60,)
    assert model.score(X, np.where(np.arange(60) < 40, np.nan, truth)) > 0.5
    # a power of two changes no digit, so that trees split at the same places
    other = method.make(k, X=X, task="regression").fit(X, 1024 * y).predict(X)
    np.testing.assert_allclose(other, 1024 * said, atol=1e-6 * 1024 * np.nanstd(y))
    loaded = labelfold.load(labelfold.save(without_tuning(model), tmp_path / "model.skops"))
    np.testing.assert_allclose(loaded.predict(X), said)


@pytest.mark.parametrize(
    ("kind", "peer"), [("extra trees", ExtraTreesRegressor), ("random forest", RandomForestRegressor)]
)
def test_trees_of_numbers_say_what_scikit_learns_say(kind, peer):
    X, y = load_iris().data[:, 1:], load_iris().data[:, 0]
    ours = Trees(kind, n_estimators=20, random_state=0, task="regression").fit(X[::2], y[::2])
    theirs = peer(20, random_state=0).fit(X[::2], y[::2])
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X))
    assert not hasattr(ours, "predict_proba")
