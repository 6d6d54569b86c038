"""scikit-learn's own checks, for every public estimator."""

from email.message import Message

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import labelfold
from labelfold import (
    CCA,
    CNMF,
    DRSVM,
    KLNMF,
    LDA,
    LSDR,
    NSDR,
    OPLS,
    PCALS,
    SSNMF,
    TSVM,
    KernelPCALS,
    LabelFold,
    LapRLS,
    NMFAlpha,
)
from labelfold.base import RowsEstimator
from labelfold.utils import documentation


class CanonicalCorrelation(CCA):
    """CCA under another name: for anything called CCA scikit-learn leaves some checks out, and expects its own."""


# What takes the place of an estimator with its defaults: fewer iterations and, for weights as repeated rows, SVMs
# trained to the last digits, and starts that follow from sums over rows.
SHORTER = {
    CCA: CanonicalCorrelation(),
    DRSVM: DRSVM(2, max_iter=30, tol=1e-12),
    SSNMF: SSNMF(2, max_iter=100, tol=1e-3, init="nndsvda"),
    CNMF: CNMF(2, max_iter=30, tol=1e-3, init="nndsvda"),
    KLNMF: KLNMF(2, max_iter=30, tol=1e-3, init="nndsvda"),
    NMFAlpha: NMFAlpha(2, max_iter=30, tol=1e-3),
    TSVM: TSVM(n_stages=2),
    LSDR: LSDR(2, tol=1e-3),
    NSDR: NSDR(2, tol=1e-3),
}
PUBLIC = [getattr(labelfold, name) for name in labelfold._ESTIMATORS]
# Every estimator, and what goes other ways through the code that reads X and y.
ESTIMATORS = [
    *(SHORTER.get(kind) or kind() for kind in PUBLIC),
    LDA(solver="direct"),
    LDA(kernel="rbf", ridge="auto"),
    LDA(ridge=[0.1, 1.0]),
    OPLS(task="regression"),
    DRSVM(2, loss="hinge", fit_intercept=True, center=True, max_iter=30, tol=1e-12),
    DRSVM(2, nonnegative=True, fit_intercept=True, max_iter=30, tol=1e-12),
    LabelFold(3, task="classification", n_anchors=10, forms=["as they are"], views=["linear", "graph"]),
    LabelFold(task="regression", views=["linear", "rbf"]),
    LapRLS(kernel="rbf", task="regression"),
    PCALS(task="regression", refit=True),
    PCALS("cv", candidates=[1, 2], cv=2),
    KernelPCALS(task="classification", n_landmarks=10),
]


def expected_failures(estimator):
    """Return the checks an estimator is not held to, each with its reason."""
    if isinstance(estimator, SSNMF) or (isinstance(estimator, DRSVM) and estimator.nonnegative):
        reason = "its data has negative entries, whatever positive_only says"
        return dict.fromkeys(["check_class_weight_classifiers", "check_decision_proba_consistency"], reason)
    if isinstance(estimator, DRSVM) and not estimator.fit_intercept:
        reason = "it expects weights to turn nearly all rows to one class, which takes an intercept"
        return {"check_class_weight_classifiers": reason}
    equivalence = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    if isinstance(estimator, NMFAlpha):
        return dict.fromkeys(equivalence, "its SVMs are trained to a relative duality gap of 1e-6")
    if isinstance(estimator, NSDR):
        return dict.fromkeys(
            equivalence, "the dual variables of equal rows are not unique, and they move the rows"
        )
    found = unequal_to_repeated_rows(estimator)
    if isinstance(estimator, KernelPCALS) and estimator.n_landmarks != 10:
        reason = (
            "a kernel that separates the training rows fits those of little weight at no cost to the others"
        )
        found["check_class_weight_classifiers"] = reason
    if getattr(estimator, "task", None) == "auto":
        reason = "with task='auto' numbers with fractions are predicted"
        found["check_classifiers_regression_target"] = reason
    return found


def unequal_to_repeated_rows(estimator):
    """Return the checks that whole weights are repeated rows; the tests of each method say where they are."""
    if isinstance(estimator, PCALS | KernelPCALS):
        reason = "its cv is a number of folds, where the check passes splits"
    elif isinstance(estimator, LabelFold):
        reason = (
            "a row is left out with its weight, repeated rows one by one; copies are neighbours in a graph"
        )
    elif isinstance(estimator, LapRLS):
        reason = "repeated rows are neighbours in the graph"
    else:
        return {}
    checks = ("on_dense_data", "on_sparse_data")
    return {f"check_sample_weight_equivalence_{check}": reason for check in checks}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
@pytest.mark.filterwarnings("ignore:The only values of y are -1 and:UserWarning")
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
@pytest.mark.filterwarnings("ignore:(DRSVM|SSNMF|CNMF):UserWarning")
@pytest.mark.filterwarnings("ignore:DRSVM:UserWarning")
@pytest.mark.filterwarnings("ignore:.*have shrunk the components away:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "name", [name for name in labelfold.__all__ if isinstance(getattr(labelfold, name), type)]
)
def test_a_notebook_shows_estimators_as_scikit_learns(name):
    made = getattr(labelfold, name)
    if issubclass(made, BaseEstimator):
        assert made._repr_html_ is BaseEstimator._repr_html_
        assert 'class="sk-top-container' in made()._repr_html_()


def test_a_notebook_links_to_the_documentation_that_the_package_names(monkeypatch):
    module = "labelfold.utils._messages"
    for address, link in [
        ("Documentation, https://example.org/labelfold/", "https://example.org/labelfold/api/LDA.html"),
        ("Source, https://example.org/code", ""),
    ]:
        message = Message()
        message["Project-URL"] = address
        monkeypatch.setattr(f"{module}.metadata", lambda _, message=message: message)
        monkeypatch.setattr(RowsEstimator, "_doc_link_template", documentation())
        assert LDA()._get_doc_link() == link
        assert (f'href="{link}#:~:text=ridge' in LDA()._repr_html_()) == bool(link)  # a parameter's own link


def test_every_public_estimator_is_checked():
    public = [getattr(labelfold, name) for name in labelfold.__all__]
    checked = {kind for estimator in ESTIMATORS for kind in type(estimator).__mro__}
    assert [kind.__name__ for kind in public if hasattr(kind, "fit") and kind not in checked] == []
