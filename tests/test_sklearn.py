"""scikit-learn's own checks, for every public estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import labelfold
from labelfold import CCA, DRSVM, HSL, LDA, OPLS, PCALS, SSDR, KernelPCALS, LapRLS


class CanonicalCorrelation(CCA):
    """CCA under another name: scikit-learn leaves some checks out for anything called CCA."""


ESTIMATORS = [
    LDA(),
    LDA(ridge=1.0),
    LDA(solver="direct"),
    LDA(kernel="rbf", ridge=1.0),
    LDA(kernel="rbf", ridge=1.0, n_landmarks=10),
    LDA(ridge=[0.1, 1.0]),
    CCA(),
    CanonicalCorrelation(),
    CanonicalCorrelation(kernel="rbf", ridge=1.0),
    OPLS(),
    OPLS(ridge=1.0),
    HSL(),
    HSL(expansion="clique"),
    HSL(expansion="star", ridge=1.0),
    SSDR(),
    SSDR(n_components=1, max_gram_bytes=0),
    DRSVM(2, max_iter=30, tol=1e-3),
    DRSVM(2, loss="hinge", fit_intercept=True, center=True, max_iter=30, tol=1e-3),
    DRSVM(2, nonnegative=True, fit_intercept=True, max_iter=30, tol=1e-3),
    LapRLS(),
    LapRLS(graph="rbf", normalized=True, fit_intercept=False),
    LapRLS(kernel="rbf"),
    LapRLS(kernel="rbf", n_landmarks=10, weights="heat"),
    PCALS(),
    PCALS(task="classification", max_gram_bytes=0, refit=True),
    PCALS(task="regression", refit=True),
    PCALS("cv", candidates=[1, 2], cv=2),
    KernelPCALS(),
    KernelPCALS(task="classification", n_landmarks=10),
]


def expected_failures(estimator):
    """Return the checks an estimator is not held to, each with its reason."""
    if isinstance(estimator, DRSVM) and estimator.nonnegative:
        return {
            "check_class_weight_classifiers": "its data has negative entries, whatever positive_only says"
        }
    if isinstance(estimator, DRSVM) and not estimator.fit_intercept:
        reason = "it expects weights to turn nearly all rows to one class, which takes an intercept"
        return {"check_class_weight_classifiers": reason}
    if isinstance(estimator, PCALS | KernelPCALS) and estimator.task == "auto":
        return {
            "check_classifiers_regression_target": "with task='auto' numbers with fractions are predicted"
        }
    if type(estimator).__name__ != "CCA":
        return {}
    reason = "scikit-learn takes what is named CCA for its own, whose fit_transform returns two arrays"
    names = ("data_not_an_array", "general", "n_iter")
    return {f"check_transformer_{name}": reason for name in names}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore:The only values of y are -1 and:UserWarning")
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
@pytest.mark.filterwarnings("ignore:DRSVM:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_public_estimator_is_checked():
    public = {name for name in labelfold.__all__ if hasattr(getattr(labelfold, name), "fit")}
    assert public <= {type(estimator).__name__ for estimator in ESTIMATORS}
