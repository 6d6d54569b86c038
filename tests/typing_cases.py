"""What an editor sees of the public names. `make types` checks this file; nothing runs it.

A line with ``type: ignore`` is one that the type checker must refuse: where it no longer does, that comment is itself
an error.
"""

from typing import Any, assert_type

import numpy as np

import labelfold
from labelfold import (
    CCA,
    LDA,
    PCALS,
    SSDR,
    LabelFold,
    LapRLS,
    NMFAlpha,
    Recipe,
    discriminant,
    factorization,
    model_selection,
    semi_supervised,
    subspace,
)
from labelfold.app.report import Comparison


def names_lead_to_their_classes(X: Any, y: Any) -> None:
    assert_type(labelfold.LDA(ridge=1.0), LDA)
    assert_type(labelfold.discriminant.LDA(ridge=1.0), LDA)
    assert_type(LDA().fit(X, y), LDA)
    assert_type(LDA().fit(X, y).predict(X), np.ndarray)
    assert_type(LDA().fit(X, y).score(X, y), float)
    assert_type(CCA().fit(X, y).decision_function(X), np.ndarray)
    assert_type(discriminant.SSDR().fit(X, y), SSDR)
    assert_type(factorization.NMFAlpha().fit(X, y), NMFAlpha)
    assert_type(subspace.PCALS().fit(X, y), PCALS)
    assert_type(semi_supervised.LapRLS().fit(X, y), LapRLS)


def results_have_types(y: np.ndarray, tensor: object) -> None:
    # NumPy arrays, too; but to mypy they are of any shape and dtype, and it then chooses no overload.
    assert_type(LDA().fit_transform([[0.0], [1.0]], y), np.ndarray)
    assert_type(LabelFold().fit_transform("rows.npy", y), np.ndarray)
    for path in ("rows.npy", "rows.csv"):
        assert_type(LDA().fit(path, y).transform(path), np.ndarray)
        assert_type(CCA().fit(path, y).transform(path), np.ndarray)
        assert_type(PCALS().fit(path, y).transform(path), np.ndarray)
        assert_type(NMFAlpha().fit(path, y).transform(path), np.ndarray)
        assert_type(LabelFold().fit(path, y).transform(path), np.ndarray)
    # On a device or a cluster results stay there.
    assert_type(LDA().fit(tensor, y).transform(tensor), Any)
    assert_type(LDA().set_params(ridge=1.0), LDA)
    assert_type(labelfold.compare(tensor, y), Comparison)
    assert_type(labelfold.load("model.skops"), Any)  # any estimator of labelfold or scikit-learn


def names_that_are_not_there() -> None:
    labelfold.LDAA()  # type: ignore[attr-defined]
    discriminant.TSVM()  # type: ignore[attr-defined]


def wrong_keywords(X: Any, y: Any) -> None:
    # Written by `make docs`.
    labelfold.CCA(unknown=1)  # type: ignore[call-arg]
    labelfold.HSL(unknown=1)  # type: ignore[call-arg]
    labelfold.LDA(unknown=1)  # type: ignore[call-arg]
    labelfold.OPLS(unknown=1)  # type: ignore[call-arg]
    labelfold.SSDR(unknown=1)  # type: ignore[call-arg]
    labelfold.KernelPCALS(unknown=1)  # type: ignore[call-arg]
    labelfold.PCALS(unknown=1)  # type: ignore[call-arg]
    labelfold.LabelFold(unknown=1)  # type: ignore[call-arg]
    labelfold.LapRLS(unknown=1)  # type: ignore[call-arg]
    labelfold.TSVM(unknown=1)  # type: ignore[call-arg]
    labelfold.CNMF(unknown=1)  # type: ignore[call-arg]
    labelfold.DRSVM(unknown=1)  # type: ignore[call-arg]
    labelfold.KLNMF(unknown=1)  # type: ignore[call-arg]
    labelfold.LSDR(unknown=1)  # type: ignore[call-arg]
    labelfold.NMFAlpha(unknown=1)  # type: ignore[call-arg]
    labelfold.NSDR(unknown=1)  # type: ignore[call-arg]
    labelfold.SSNMF(unknown=1)  # type: ignore[call-arg]
    # End.
    Recipe(dates=["a"])  # type: ignore[call-arg]
    LDA().fit(X, y, weights=y)  # type: ignore[call-arg]
    LDA().partial_fit(X, y, klasses=[0, 1])  # type: ignore[call-arg]
    model_selection.SemiSupervisedKFold(splits=3)  # type: ignore[call-arg]
    labelfold.compare(X, y, budget=[10])  # type: ignore[call-arg]
    labelfold.as_rows(X, dtype=float)  # type: ignore[call-arg]
    labelfold.load("model.skops", trusted=True)  # type: ignore[call-arg]


def wrong_types() -> None:
    LDA(n_components="two")  # type: ignore[arg-type]
    PCALS(max_iter="many")  # type: ignore[arg-type]
