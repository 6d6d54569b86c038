"""A path of weights of the directions of NMFAlpha; each fit has a warm start from the previous one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from sklearn.base import clone

from labelfold.factorization._divergence_nmf import DivergenceNMF
from labelfold.numerics import nonnegative_numbers


class SupervisionPath(DivergenceNMF):
    """The part of NMFAlpha that handles several weights of the directions."""

    def path(self, X: Any, y: Any, multiples: Sequence[float]) -> list[Self]:
        """Fit for several weights of the second term, each with a warm start from the previous one.

        The SVMs are trained once, and a fit with a warm start needs few iterations. ``max_iter`` is the limit of one
        step of the path.

        Parameters
        ----------
        X, y
            As in `fit`.
        multiples : sequence of float
            The weights, as multiples of the one that ``supervision="auto"`` chooses, in the order of the path; 0 is
            `KLNMF`. Falling ones, say 3, 1, 0.3, 0.1, 0.03, are the better order: factors that were found without
            supervision hardly leave their minimum again.

        Returns
        -------
        models : list of NMFAlpha
            One fitted model for each multiple, in the given order, with the weight itself as ``supervision``.
        """
        base = clone(self).set_params(supervision="auto")
        base._validate_params()
        weights = nonnegative_numbers("multiples", multiples)
        rows, labels = base._read(X, y)
        found = base._survey(rows)
        guide, learned = base._guide(rows, labels, float(found.column.sum()))
        assert guide is not None
        known = {name: value for name, value in vars(base).items() if name.endswith("_")}
        models: list[Self] = []
        start, unit = None, guide.weight
        for multiple in weights:
            model = clone(self).set_params(supervision=multiple * unit)
            model.__dict__.update(known, supervision_=multiple * unit)
            guide = replace(guide, weight=multiple * unit)
            ended = model._solve(rows, labels, found, guide if multiple else None, learned, start)
            start, guide = (ended.H, ended.V), getattr(ended, "guide", guide)
            models.append(model)
        return models
