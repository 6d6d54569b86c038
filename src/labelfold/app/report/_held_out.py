"""The report on held-out predictions: confusion, confidence, and doubtful labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import confusion_matrix, multilabel_confusion_matrix

from labelfold.app.compare import Comparison
from labelfold.app.io import count
from labelfold.app.report import _figures as figures
from labelfold.app.report._map import packed, pictures

_MOST_IN_MATRIX = 25  # most classes; with more there is a list of confused pairs
_MOST_LISTED = 20


def look_again(found: Comparison) -> dict[str, Any] | None:
    """Return the labels that held-out predictions contradict with high confidence."""
    told, data = found.review.left_out, found.data
    if told is None or data.facts.numbers or not np.isfinite(told.confidence).any():
        return None
    rows = told.doubtful(data.truth)
    at = data.labels.index[rows]
    return {
        "n": len(rows),
        "tested": int(told.tested.sum()),
        "how": told.how,
        "names": [data.row(i) for i in at],
        "lines": [
            (data.row(i), data.named(data.y[i]), data.named(told.guess[r]), f"{told.confidence[r]:.0%}")
            for i, r in zip(at[:_MOST_LISTED], rows, strict=False)
        ],
        "pictures": pictures(found, at[:_MOST_LISTED]),
    }


def confusion(found: Comparison) -> dict[str, Any] | None:
    """Return the confusion matrix of the recommended method, with the rows of each cell."""
    told, data = found.review.left_out, found.data
    if told is None or data.facts.numbers or not told.tested.any():
        return None
    truth, guess = data.truth[told.tested], told.guess[told.tested]
    at = data.labels.index[told.tested]
    shown: dict[str, Any] = {
        "how": told.how,
        "rows": count(len(truth), "labelled row"),
        "right": f"{told.right(data.truth)[told.tested].mean():.1%}",
        "names": data.classes,
        "held": {"names": [data.row(i) for i in at]},
    }
    if data.facts.multilabel:
        total = multilabel_confusion_matrix(truth, guess)  # (c, 2, 2)
        lines = [
            (name, *m[[1, 0, 1, 0], [1, 1, 0, 0]].tolist())
            for name, m in zip(data.classes, total, strict=True)
        ]
        return shown | {"kind": "labels", "lines": lines}
    shown["held"] |= {"true": packed(truth, "<u4"), "guess": packed(guess, "<u4")}
    total = confusion_matrix(truth, guess, labels=np.arange(len(data.classes)))
    shares = total / np.maximum(total.sum(axis=1, keepdims=True), 1)
    cells = [
        [(i, j, int(total[i, j]), float(shares[i, j])) for j in range(len(total))] for i in range(len(total))
    ]
    if len(total) > _MOST_IN_MATRIX:
        wrong = sorted((c for row in cells for c in row if c[0] != c[1] and c[2]), key=lambda c: -c[2])
        return shown | {"kind": "mistakes", "lines": wrong[:_MOST_LISTED]}
    return shown | {"kind": "matrix", "lines": cells}


def held_out(found: Comparison) -> dict[str, Any] | None:
    """Return the texts of the figure of true against predicted numbers."""
    told, choice = found.review.left_out, found.choice
    if told is None or not found.data.facts.numbers:
        return None
    return {
        "rows": count(len(told.guess), "labelled row"),
        "how": told.how,
        "within": None if choice is None or choice.within is None else f"{choice.within:.3g}",
    }


def calibration(found: Comparison) -> dict[str, Any] | None:
    """Return the texts of the reliability diagram."""
    shares = figures.reliability(found)
    told = found.review.left_out
    if shares is None or told is None:
        return None
    said = [f"{s:.0%} sure, {right:.0%} right, {count(n, 'row')}" for s, right, _, _, n in shares]
    n = sum(rows for *_, rows in shares)
    sure, right = (sum(row[i] * row[4] for row in shares) / n for i in (0, 1))
    return {
        "described": f"How often predictions were right, by how sure they were. {'; '.join(said)}.",
        "rows": count(n, "labelled row"),
        "how": told.how,
        "sure": f"{sure:.0%}",
        "right": f"{right:.0%}",
    }
