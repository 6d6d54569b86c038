"""What an editor sees of the public names. `make types` checks this file; nothing runs it.

A line with ``type: ignore`` is one that the type checker must refuse: where it no longer does, that comment is itself
an error.
"""

from typing import Any, assert_type

import numpy as np

import labelfold
from labelfold import (
    CCA,
    CNMF,
    DRSVM,
    HSL,
    KLNMF,
    LDA,
    LSDR,
    NSDR,
    OPLS,
    PCALS,
    SSDR,
    SSNMF,
    TSVM,
    KernelPCALS,
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


def names_that_are_not_there() -> None:
    labelfold.LDAA()  # type: ignore[attr-defined]
    discriminant.TSVM()  # type: ignore[attr-defined]


def wrong_keywords(X: Any, y: Any) -> None:
    LDA(rigde=1.0)  # type: ignore[call-arg]
    CCA(rigde=1.0)  # type: ignore[call-arg]
    HSL(rigde=1.0)  # type: ignore[call-arg]
    OPLS(rigde=1.0)  # type: ignore[call-arg]
    SSDR(n_component=1)  # type: ignore[call-arg]
    CNMF(n_component=1)  # type: ignore[call-arg]
    DRSVM(n_component=1)  # type: ignore[call-arg]
    KLNMF(n_component=1)  # type: ignore[call-arg]
    LSDR(n_component=1)  # type: ignore[call-arg]
    NMFAlpha(n_component=1)  # type: ignore[call-arg]
    NSDR(n_component=1)  # type: ignore[call-arg]
    SSNMF(n_component=1)  # type: ignore[call-arg]
    KernelPCALS(n_component=1)  # type: ignore[call-arg]
    PCALS(n_component=1)  # type: ignore[call-arg]
    LabelFold(n_component=1)  # type: ignore[call-arg]
    LapRLS(rigde=1.0)  # type: ignore[call-arg]
    Recipe(dates=["a"])  # type: ignore[call-arg]
    TSVM(c=1.0)  # type: ignore[call-arg]
    LDA().fit(X, y, weights=y)  # type: ignore[call-arg]
    LDA().partial_fit(X, y, klasses=[0, 1])  # type: ignore[call-arg]
    model_selection.SemiSupervisedKFold(splits=3)  # type: ignore[call-arg]
    labelfold.compare(X, y, budget=[10])  # type: ignore[call-arg]
    labelfold.as_rows(X, dtype=float)  # type: ignore[call-arg]
    labelfold.load("model.skops", trusted=True)  # type: ignore[call-arg]


def wrong_types() -> None:
    LDA(n_components="two")  # type: ignore[arg-type]
    PCALS(max_iter="many")  # type: ignore[arg-type]
