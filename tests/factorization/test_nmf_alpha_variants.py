"""NMFAlpha's directions of other classifiers, directions learned with the factors, and the kernel form."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from test_nmf_alpha import TASKS, problem

from labelfold import KLNMF, NMFAlpha
from labelfold.app.io._models import load_model, save_model
from labelfold.factorization._dual_directions import JointSVMs, dual_directions, training_sets
from labelfold.labels import read_labels
from labelfold.rows import as_rows
from reference.nmf_alpha import loss

pytestmark = pytest.mark.filterwarnings(
    "ignore:(NMFAlpha|KLNMF) stopped after:sklearn.exceptions.ConvergenceWarning"
)


def naive_perceptron(X, y, epochs, order):
    """Mistakes of the textbook algorithm, row by row."""
    count = np.zeros(len(y))
    for _ in range(epochs):
        before = count.copy()
        for i in order:
            w = X.T @ (count * y)
            count[i] += y[i] * (X[i] @ w) <= 0
        if (before == count).all():
            break
    return count


def machine_cost(X, sign, alpha, C):
    """What the dual of an SVM with squared hinge minimises, written out."""
    total = sum(
        a * b * s * t * (x @ z)
        for a, s, x in zip(alpha, sign, X, strict=True)
        for b, t, z in zip(alpha, sign, X, strict=True)
    )
    return 0.5 * total + sum(a * a for a in alpha) / (4 * C) - sum(alpha)


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_a_perceptron_counts_its_mistakes(make):
    X, y, index = problem()
    labels = read_labels(y)
    S = dual_directions(make(X[index]), labels, 1.0, "ovo", "perceptron", random_state=3).toarray()
    sign = labels.signs()[:, 0]
    order = np.random.default_rng(3).permutation(len(index))
    expected = naive_perceptron(X[index], sign, 20, order)
    np.testing.assert_array_equal(S[:, 0], expected * (sign > 0))
    np.testing.assert_array_equal(S[:, 1], expected * (sign < 0))


def test_a_perceptron_of_separable_rows_ends_without_mistakes():
    X = np.array([[3.0, 1.0], [2.0, 0.5], [0.5, 2.0], [1.0, 4.0]])
    labels = read_labels([1, 1, 0, 0])
    S = dual_directions(X, labels, 1.0, "ovo", "perceptron").toarray()
    w = X.T @ (S[:, 0] - S[:, 1])
    assert (labels.signs()[:, 0] * (X @ w) > 0).all()


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_logistic_directions_add_up_to_its_weights(multiclass):
    X, y, index = problem("multiclass")
    labels = read_labels(y)
    S = dual_directions(X[index], labels, 0.1, multiclass, "logistic").toarray()
    p = S.shape[1] // 2
    assert S.min() >= 0
    for m, (here, sign) in enumerate(training_sets(labels, multiclass)):
        known = X[index][here]
        model = LogisticRegression(C=0.1, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(known, sign)
        np.testing.assert_allclose(X[index].T @ (S[:, m] - S[:, p + m]), model.coef_[0], atol=1e-5)


def test_logistic_directions_of_a_label_that_all_rows_have_are_refused():
    X, y, index = problem("multilabel")
    y[index, 1] = 1
    with pytest.raises(ValueError, match="a label that all labelled rows have"):
        NMFAlpha(3, directions="logistic").fit(X, y)


@pytest.mark.parametrize("directions", ["svm", "perceptron", "logistic"])
@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_a_joint_objective_never_rises_and_is_what_it_says(directions, make):
    X, y, index = problem("multiclass", n=40, d=12, n_labelled=15)
    options = {"joint": True, "directions": directions, "corrected": False}
    model = NMFAlpha(3, supervision=4.0, machine_weight=50.0, max_iter=6, tol=0, **options).fit(make(X), y)
    assert (np.diff(model.objective_) <= 0).all()
    S, labels, total = model.dual_coef_.toarray(), read_labels(y), 0.0
    p = S.shape[1] // 2
    for m, (here, sign) in enumerate(training_sets(labels, "ovo")):
        alpha = (S[:, m] + S[:, p + m])[index][here]
        total += machine_cost(X[index][here], sign, alpha, model.C_)
    exact = loss(X.T, model.components_.T, model.embedding_.T, S, 4.0) + 50.0 * total
    np.testing.assert_allclose(model.objective_[-1], exact, rtol=1e-9)


@pytest.mark.parametrize("task", TASKS)
def test_the_gradient_of_a_machine_is_that_of_its_objective(task, rng):
    X, y, index = problem(task, n=30, d=10, n_labelled=12)
    labels = read_labels(y, allowed=TASKS)
    members = list(training_sets(labels, "ovr"))
    machine = JointSVMs(X[index], members, 0.3, 2.0)
    H, V = rng.random((len(index), 3)), rng.random((X.shape[1], 3))
    for here, sign in members:
        alpha = rng.random(len(here)) + 0.1
        args = (here, sign, H, V, 1.5)
        numeric = approx_fprime(alpha, lambda a, args=args: machine.objective(a, *args)[0], 1e-7)
        np.testing.assert_allclose(machine.objective(alpha, *args)[1], numeric, rtol=1e-4, atol=1e-4)


def test_the_end_of_a_joint_fit_is_stationary_in_the_machines():
    X, y, index = problem(n=30, d=12, n_labelled=14)
    X += 0.1
    model = NMFAlpha(2, joint=True, corrected=False, max_iter=400, tol=1e-13).fit(X, y)
    labels = read_labels(y)
    ((here, sign),) = training_sets(labels, "ovo")
    machine = JointSVMs(X[index], [(here, sign)], model.C_, model.machine_weight_)
    alpha = model.dual_coef_.toarray()[index].sum(axis=1)
    H, V = model.embedding_[index], model.components_.T
    gradient = machine.objective(alpha, here, sign, H, V, model.supervision_)[1]
    scale = model.machine_weight_  # of the derivative of - sum(alpha)
    assert np.abs(gradient[alpha > 1e-9 * alpha.max()]).max() < 1e-3 * scale
    assert gradient[alpha <= 1e-9 * alpha.max()].min(initial=0.0) > -1e-3 * scale


def test_heavy_machines_are_the_plain_ones():
    X, y, _ = problem("multiclass")
    plain = NMFAlpha(3, max_iter=20).fit(X, y)
    joint = NMFAlpha(3, joint=True, machine_weight=1e12 * X.sum(), max_iter=3).fit(X, y)
    S, T = (model.dual_coef_.toarray() for model in (plain, joint))
    np.testing.assert_allclose(T, S, atol=2e-3 * S.max())


def test_without_supervision_there_is_nothing_to_learn_jointly():
    X, y, _ = problem()
    model = NMFAlpha(3, supervision=0, joint=True, max_iter=8, corrected=False).fit(X, y)
    np.testing.assert_array_equal(model.components_, KLNMF(3, max_iter=8).fit(X).components_)
    assert model.machine_weight_ == 0


@pytest.mark.parametrize(
    "variant",
    [
        {"joint": True},
        {"directions": "perceptron"},
        {"directions": "logistic"},
        {"kernel": "rbf", "gamma": 0.01, "n_landmarks": 20},
        {"kernel": "rbf", "gamma": 0.01, "n_landmarks": 20, "joint": True, "directions": "perceptron"},
    ],
    ids=["joint", "perceptron", "logistic", "kernel", "all"],
)
def test_a_variant_is_the_same_in_every_container(container, variant):
    X, y, _ = problem("multiclass", n=40, d=12, n_labelled=15)
    options = {**variant, "max_iter": 2, "tol": 0, "corrected": False}
    (plain,), held = NMFAlpha(3, **options).path(X, y, [0.3]), container.make(X)
    (model,) = NMFAlpha(3, **options).path(held, y, [0.3])
    np.testing.assert_allclose(model.objective_, plain.objective_, rtol=1e-6)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-3 * plain.components_.max())
    placed, expected = as_rows(held).get(model.transform(held)), plain.transform(X)
    np.testing.assert_allclose(placed, expected, atol=1e-2 * expected.max())


def test_the_kernel_form_factorises_the_kernels_with_landmarks(rng):
    X, y, _ = problem("multiclass")
    X = X - X.mean(axis=0)  # kernels are not negative, whatever the rows are
    options = {"max_iter": 30, "tol": 0, "supervision": 2.0}
    model = NMFAlpha(4, kernel="rbf", gamma=0.01, n_landmarks=20, **options).fit(X, y)
    landmarks = X[np.sort(np.random.RandomState(0).permutation(len(X))[:20])]
    K = rbf_kernel(X, landmarks, gamma=0.01)
    plain = NMFAlpha(4, **options).fit(K, y)
    np.testing.assert_allclose(model.objective_, plain.objective_, rtol=1e-8)
    np.testing.assert_allclose(model.embedding_, plain.embedding_, atol=1e-5 * plain.embedding_.max())
    new = rng.normal(size=(5, X.shape[1]))
    np.testing.assert_allclose(
        model.transform(new), plain.transform(rbf_kernel(new, landmarks, gamma=0.01)), atol=1e-6
    )


def test_what_the_kernel_form_has_not(tmp_path):
    X, y, _ = problem()
    model = NMFAlpha(3, kernel="rbf", max_iter=5).fit(X, y)
    for ask in (lambda: model.inverse_transform(model.embedding_), model.top_features):
        with pytest.raises(ValueError, match="over landmarks, not over columns"):
            ask()
    with pytest.raises(ValueError, match="without a kernel"):
        NMFAlpha(3, gamma=2.0).fit(X, y)
    save_model(model, tmp_path / "m.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "m.skops").transform(X), model.transform(X))
