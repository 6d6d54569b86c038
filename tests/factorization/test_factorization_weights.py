"""Weights of rows and classes: whole weights are repeated rows, and a row of weight 0 is left out."""

import numpy as np
import pytest

from labelfold import CNMF, DRSVM, KLNMF, LSDR, NSDR, SSNMF, NMFAlpha
from labelfold.factorization._nsdr import objective as nsdr_objective
from labelfold.factorization._offset_factorization import OffsetProblem
from labelfold.labels import loss_weights, read_labels
from labelfold.rows import as_rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* stopped after:sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:n_components=:UserWarning"),
]
K = 3


def problem(task="multiclass", seed=0, n=60, d=8):
    """Non-negative rows of three classes, half of them labelled, with whole weights from 0 to 3."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 3, n)
    X = np.abs(rng.standard_normal((n, d)) + 2 * rng.random((3, d))[code])
    known = np.arange(n) % 2 == 0
    if task == "multilabel":
        y = np.where(known[:, None], np.stack([code == 0, code != 1], axis=1), np.nan)
    else:
        y = np.where(known, code > 0 if task == "binary" else code, -1)
    return X, y, rng.integers(0, 4, n)


def given(X, seed=1):
    rng = np.random.default_rng(seed)
    return rng.random((len(X), K)) + 0.1, rng.random((X.shape[1], K)) + 0.1


# Descents of so few steps that round-off does not grow, from a start that follows from sums over rows or is given.
MODELS = {
    "drsvm": (DRSVM, {"max_iter": 20, "tol": 1e-12}),
    "drsvm, centred": (DRSVM, {"max_iter": 20, "tol": 1e-12, "center": True, "fit_intercept": True}),
    "drsvm, hinge": (DRSVM, {"max_iter": 20, "tol": 1e-12, "loss": "hinge", "class_weight": "balanced"}),
    "drsvm, non-negative": (DRSVM, {"max_iter": 20, "tol": 1e-12, "nonnegative": True}),
    "drsvm, given": (DRSVM, {"max_iter": 20, "tol": 1e-12, "init": "given", "class_weight": {0: 3.0}}),
    "lsdr": (LSDR, {"max_iter": 15}),
    "lsdr, logistic": (LSDR, {"max_iter": 15, "loss": "logistic", "class_weight": "balanced"}),
    "lsdr, squared": (LSDR, {"max_iter": 15, "loss": "squared", "max_gram_bytes": 0}),
    "lsdr, passes": (LSDR, {"max_iter": 15, "max_gram_bytes": 0}),
    "klnmf": (KLNMF, {"init": "nndsvda", "max_iter": 40}),
    "klnmf, given": (KLNMF, {"init": "given", "max_iter": 40, "corrected": True}),
    "nmfalpha": (NMFAlpha, {"init": "nndsvda", "max_iter": 30}),
    "nmfalpha, ovr": (
        NMFAlpha,
        {"init": "given", "max_iter": 30, "multiclass": "ovr", "class_weight": "balanced"},
    ),
    "nmfalpha, logistic": (NMFAlpha, {"init": "given", "max_iter": 30, "directions": "logistic"}),
    "nmfalpha, joint": (
        NMFAlpha,
        {"init": "given", "max_iter": 3, "joint": True, "class_weight": "balanced"},
    ),
    "ssnmf": (SSNMF, {"init": "nndsvda", "max_iter": 40}),
    "ssnmf, given": (SSNMF, {"init": "given", "max_iter": 40, "class_weight": "balanced"}),
    "cnmf": (CNMF, {"init": "nndsvda", "max_iter": 40}),
    "cnmf, given": (CNMF, {"init": "given", "max_iter": 40}),
}


def fitted(name, X, y, weights=None, init=None, **options):
    """Return the fitted model of a name; ``init`` has the given factors of the rows."""
    model, own = MODELS[name]
    own = {**own, **options}
    if own.get("init") == "given":
        own["init"] = init
    return model(K, **own).fit(X, y, sample_weight=weights)


def learned(model, X):
    """Return what a model has learned from the sums over rows, and its results for rows."""
    names = (
        "components_",
        "embedding_coef_",
        "class_loadings_",
        "class_embedding_",
        "column_offsets_",
        "objective_",
    )
    found = {name: getattr(model, name) for name in names if hasattr(model, name)}
    found["Z"] = model.transform(X)
    if hasattr(model, "decision_function"):
        found["F"] = model.decision_function(X)
    return found


def assert_same(model, other, X, tol=1e-8):
    ours, theirs = learned(model, X), learned(other, X)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        scale = np.abs(theirs[name]).max()
        np.testing.assert_allclose(value, theirs[name], atol=tol * scale, rtol=0, err_msg=name)


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("name", MODELS)
def test_whole_weights_are_repeated_rows(name, task):
    if task == "multilabel" and isinstance(MODELS[name][1].get("class_weight"), dict):
        pytest.skip("its class_weight names a class")
    X, y, weights = problem(task)
    H, V = given(X)
    index = np.repeat(np.arange(len(X)), weights)
    model = fitted(name, X, y, weights, (H, V))
    repeated = fitted(name, X[index], y[index], None, (H[index], V))
    assert_same(model, repeated, X)
    first = np.searchsorted(index, np.flatnonzero(weights))
    kept = weights > 0
    scale = np.abs(repeated.embedding_).max()
    np.testing.assert_allclose(model.embedding_[kept], repeated.embedding_[first], atol=1e-8 * scale, rtol=0)
    # A row of weight 0 has the embedding of a new row.
    np.testing.assert_allclose(model.embedding_[~kept], model.transform(X[~kept]), atol=1e-8 * scale, rtol=0)


NSDR_MODELS = {
    "nsdr": {"max_iter": 10},
    "nsdr, rbf": {"max_iter": 10, "kernel": "rbf", "class_weight": "balanced"},
}


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("options", NSDR_MODELS.values(), ids=NSDR_MODELS)
def test_nsdr_has_the_objective_of_repeated_rows(options, task):
    """Dual variables of equal rows are not unique, and so neither are the steps; the objective is."""
    X, y, weights = problem(task)
    index = np.repeat(np.arange(len(X)), weights)
    model = NSDR(K, **options).fit(X, y, sample_weight=weights)
    repeated = NSDR(K, **options).fit(X[index], y[index])
    names = ("reconstruction_share", "row_penalty", "basis_penalty", "offset_unit", "gamma")
    for name in names:
        np.testing.assert_allclose(getattr(model, name + "_"), getattr(repeated, name + "_"), rtol=1e-10)
    labels = read_labels(y[index], allowed=("binary", "multiclass", "multilabel"))
    value = nsdr_objective(
        X[index],
        model.embedding_[index],
        model.row_offsets_[index],
        model.components_,
        model.column_offsets_,
        labels.signs(),
        labels.index,
        kernel=model.kernel,
        C=model.C_ * loss_weights(labels, model.class_weight),
        tol=1e-9,
        **{name: getattr(model, name + "_") for name in names},
    )
    np.testing.assert_allclose(model.objective_[-1], value, rtol=1e-7)
    np.testing.assert_allclose(model.objective_[-1], repeated.objective_[-1], rtol=1e-3)


def test_the_steps_of_the_descent_are_those_of_repeated_rows():
    X, y, weights = problem("binary")
    index = np.repeat(np.arange(len(X)), weights)
    problems = []
    for rows, target, of_rows in ((X, y, weights), (X[index], y[index], None)):
        model = LSDR(K)
        labels, of_rows = model._read_weighted(target, of_rows, len(rows))
        given = model._set_up(as_rows(rows), labels, of_rows)
        losses = model._loss_weights(labels)
        classifier = model._classifier(labels.signs(), given.label_share, given.length, losses)
        penalties = (
            model.reconstruction_share_,
            model.row_penalty_,
            model.basis_penalty_,
            model.offset_unit_,
        )
        problems.append(
            (OffsetProblem(given.data, classifier, given.n, *penalties, given.root), given, labels)
        )
    (ours, given, labels), (theirs, _, others) = problems
    rng = np.random.default_rng(0)
    V, c = given.bases[0], rng.standard_normal(X.shape[1])
    D = rng.standard_normal((labels.n_labelled, K + 1))
    back = np.searchsorted(labels.index, index[others.index])
    one, other = ours.evaluate(V, c, given.root * D), theirs.evaluate(V, c, D[back])
    np.testing.assert_allclose(one.value, other.value, rtol=1e-12)
    slope, repeated = ours.gradient(one), theirs.gradient(other)
    for name in ("V", "c"):
        np.testing.assert_allclose(getattr(slope, name), getattr(repeated, name), atol=1e-10)
    np.testing.assert_allclose((slope.D / given.root)[back], repeated.D, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["klnmf", "klnmf, given", "cnmf", "cnmf, given", "cnmf, random", "klnmf, random"]
)
def test_a_common_weight_of_all_rows_changes_nothing_but_the_objective(name):
    X, y, _ = problem(n=40)  # so few rows that random initial values need no sample of them
    kind, options = MODELS[name.removesuffix(", random")]
    options = {**options, "init": {"nndsvda": "nndsvda", "given": given(X)}[options["init"]]}
    if name.endswith("random"):
        options["init"] = "random"
    model = kind(K, **options).fit(X, y, sample_weight=np.full(len(X), 2.5))
    plain = kind(K, **options).fit(X, y)
    np.testing.assert_allclose(model.objective_, 2.5 * plain.objective_, rtol=1e-9)
    np.testing.assert_allclose(
        model.embedding_ @ model.components_, plain.embedding_ @ plain.components_, rtol=1e-6
    )


@pytest.mark.parametrize("model", [KLNMF, NMFAlpha, SSNMF, CNMF, DRSVM])
def test_a_random_start_is_that_of_repeated_rows_in_the_mean(model):
    X, y, weights = problem(n=300)
    index = np.repeat(np.arange(len(X)), weights)
    options = {"init": "random", "max_iter": 4, "tol": 0}
    ours, theirs = [], []
    for seed in range(20):
        weighted = model(K, random_state=seed, **options).fit(X, y, sample_weight=weights)
        repeated = model(K, random_state=seed, **options).fit(X[index], y[index])
        ours.append(weighted.objective_[-1])
        theirs.append(repeated.objective_[-1])
    error = np.sqrt((np.var(ours, ddof=1) + np.var(theirs, ddof=1)) / 20)
    assert abs(np.mean(ours) - np.mean(theirs)) < 4 * error


@pytest.mark.parametrize(
    "name",
    ["drsvm, centred", "drsvm, non-negative", "lsdr", "lsdr, passes", "klnmf", "nmfalpha", "ssnmf", "cnmf"],
)
def test_containers(name, container):
    X, y, weights = problem()
    model = fitted(name, container.make(X), y, weights, max_iter=5)
    plain = fitted(name, X, y, weights, max_iter=5)
    np.testing.assert_allclose(
        model.components_, plain.components_, atol=1e-6 * np.abs(plain.components_).max()
    )
    np.testing.assert_allclose(np.asarray(model.embedding_), plain.embedding_, atol=1e-5)


def test_float32():
    X, y, weights = problem()
    for name in ("drsvm", "lsdr", "klnmf", "nmfalpha", "ssnmf", "cnmf"):
        model = fitted(name, X.astype(np.float32), y, weights, max_iter=5)
        plain = fitted(name, X, y, weights, max_iter=5)
        assert model.embedding_.dtype == np.float32
        np.testing.assert_allclose(
            model.embedding_, plain.embedding_, atol=2e-3 * np.abs(plain.embedding_).max()
        )


def test_the_path_of_nmf_alpha_takes_weights():
    X, y, weights = problem()
    H, V = given(X)
    index = np.repeat(np.arange(len(X)), weights)
    options = {"max_iter": 10, "tol": 0}
    models = NMFAlpha(K, init=(H, V), **options).path(X, y, [1.0, 0.1], sample_weight=weights)
    others = NMFAlpha(K, init=(H[index], V), **options).path(X[index], y[index], [1.0, 0.1])
    for model, other in zip(models, others, strict=True):
        assert_same(model, other, X)
        added = np.zeros(model.dual_coef_.shape)
        np.add.at(added, index, other.dual_coef_.toarray())
        np.testing.assert_allclose(model.dual_coef_.toarray(), added, atol=1e-6 * added.max())


@pytest.mark.parametrize("n_landmarks", [10, None])
def test_landmarks_have_a_weight(n_landmarks):
    X, y, weights = problem()
    model = NMFAlpha(K, kernel="rbf", n_landmarks=n_landmarks, max_iter=5).fit(X, y, sample_weight=weights)
    landmarks = model.feature_map_.points
    if model.feature_map_.center is not None:
        landmarks = landmarks + model.feature_map_.center
    assert len(landmarks) == (10 if n_landmarks else (weights > 0).sum())
    distances = np.linalg.norm(landmarks[:, None] - X, axis=2)
    assert distances.min(axis=1).max() < 1e-12
    assert weights[distances.argmin(axis=1)].all()


def test_weights_of_all_classes_are_a_weight_of_the_labels():
    X, y, _ = problem()
    twice = {"class_weight": dict.fromkeys(range(3), 2.0)}
    H, V = given(X)
    pairs = [
        (SSNMF(K, supervision=3.0, init=(H, V), **twice), SSNMF(K, supervision=6.0, init=(H, V))),
        (NMFAlpha(K, C=0.1, init=(H, V), **twice), NMFAlpha(K, C=0.2, init=(H, V))),
        (NSDR(K, C=0.5, max_iter=5, **twice), NSDR(K, C=1.0, max_iter=5)),
        (
            DRSVM(K, svm_penalty=1.0, reconstruction=2.0, factor_penalty=0.5, max_iter=20, **twice),
            DRSVM(K, svm_penalty=0.5, reconstruction=1.0, factor_penalty=0.25, max_iter=20),
        ),
        (
            LSDR(
                K,
                reconstruction_share=0.5,
                row_penalty=0.3,
                basis_penalty=0.6,
                classifier_penalty=0.9,
                **twice,
            ),
            LSDR(K, reconstruction_share=1 / 3, row_penalty=0.2, basis_penalty=0.4, classifier_penalty=0.6),
        ),
    ]
    for model, other in pairs:
        model, other = model.fit(X, y), other.fit(X, y)
        tol = 1e-5 * np.abs(other.components_).max()
        np.testing.assert_allclose(model.components_, other.components_, atol=tol)


@pytest.mark.parametrize("name", ["drsvm", "lsdr", "nsdr", "ssnmf", "nmfalpha"])
def test_balanced_classes_have_the_same_total(name):
    X, y, weights = problem()
    model, options = {**MODELS, "nsdr": (NSDR, {"max_iter": 5})}[name]
    totals = np.array([weights[y == c].sum() for c in range(3)])
    own = dict(enumerate(totals.sum() / (3 * totals)))
    balanced = model(K, **{**options, "class_weight": "balanced"}).fit(X, y, sample_weight=weights)
    given_ones = model(K, **{**options, "class_weight": own}).fit(X, y, sample_weight=weights)
    plain = model(K, **options).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(balanced.components_, given_ones.components_)
    assert np.abs(balanced.components_ - plain.components_).max() > 1e-6


@pytest.mark.parametrize("model", [DRSVM, LSDR, NSDR, NMFAlpha, SSNMF])
def test_class_weight_of_a_class_that_is_not_there(model):
    X, y, _ = problem()
    with pytest.raises(ValueError, match="positive weights of the classes"):
        model(K, class_weight={7: 2.0}).fit(X, y)


@pytest.mark.parametrize("model", [DRSVM, LSDR, NSDR, KLNMF, NMFAlpha, SSNMF, CNMF])
def test_weights_that_are_refused(model):
    X, y, weights = problem()
    with pytest.raises(ValueError, match="pass one number a row"):
        model(K).fit(X, y, sample_weight=weights[:-1])
    with pytest.raises(ValueError, match="numbers from 0 on are expected"):
        model(K).fit(X, y, sample_weight=weights - 1.0)


def test_a_row_of_weight_0_gets_a_label():
    X, y, weights = problem()
    for name in ("drsvm", "drsvm, non-negative", "lsdr", "ssnmf"):
        model = fitted(name, X, y, weights)
        none = (weights == 0) & (y >= 0)
        np.testing.assert_array_equal(model.transduction_[none], model.predict(X[none]))
        kept = (weights > 0) & (y >= 0)
        np.testing.assert_array_equal(model.transduction_[kept], y[kept])


@pytest.mark.parametrize("name", ["drsvm, non-negative", "lsdr", "klnmf", "nmfalpha", "ssnmf", "cnmf"])
def test_a_weight_that_vanishes_in_float32_is_one_of_0(name):
    X, y, weights = problem()
    X, weights = X.astype(np.float32), weights.astype(float)
    weights[:2] = 0
    plain = fitted(name, X, y, weights, max_iter=5)
    weights[:2] = 1e-99
    model = fitted(name, X, y, weights, max_iter=5)
    np.testing.assert_allclose(
        model.components_, plain.components_, atol=1e-4 * np.abs(plain.components_).max()
    )
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize("model", [KLNMF, NMFAlpha, SSNMF, CNMF])
def test_a_negative_row_of_weight_0_is_refused(model):
    X, y, _ = problem()
    X[0] = -1.0
    with pytest.raises(ValueError, match="Negative values"):
        model(K, max_iter=3).fit(X, y, sample_weight=np.arange(len(X)))
