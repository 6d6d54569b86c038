"""scikit-learn's own checks, for every public estimator."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import labelfold
from labelfold import LDA

ESTIMATORS = [LDA(), LDA(ridge=1.0), LDA(solver="direct")]


@parametrize_with_checks(ESTIMATORS)
@pytest.mark.filterwarnings("ignore:y holds only -1 and 1:UserWarning")
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_every_public_estimator_is_checked():
    public = {name for name in labelfold.__all__ if hasattr(getattr(labelfold, name), "fit")}
    assert public == {type(estimator).__name__ for estimator in ESTIMATORS}
