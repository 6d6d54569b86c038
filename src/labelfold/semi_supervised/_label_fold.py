"""LabelFold: many views of the rows, weighted by the labels, folded into one embedding."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Decisions, HostRows, RowsTransformer, constraints, fitting
from labelfold.labels import Labels, class_weighted, read_weights
from labelfold.model_selection import Groups, copies_of, read_groups
from labelfold.numerics import MAX_GRAM_BYTES, nonnegative_numbers
from labelfold.rows import Block, Featurized, Rows, row_hashes, single_blas
from labelfold.saved import plain, rebuilt
from labelfold.semi_supervised._blend import embed
from labelfold.semi_supervised._calibration import calibrate
from labelfold.semi_supervised._trees import grow
from labelfold.semi_supervised._views import TREES, FormViews, View, chosen_views
from labelfold.semi_supervised._weights import MINOR, Solution, Targets, default_ridges, solve, targets_of
from labelfold.utils import Interval, Progress, StrOptions, warn_user

# Budget of time for `refit`: views times labelled rows. With more labelled rows it uses fewer views.
_REFIT_WORK = 1600
# Budget of time for `refit`: number of trees for each part of the labelled rows.
_REFIT_TREES = 5
# Budget: maximum number of unlabelled rows that are used when views are weighted.
_OTHERS = 500
# Budget: maximum number of other rows that are searched for copies of labelled rows.
_FOR_COPIES = 5000
# Budget of time: number of new rows that a thread scores at a time. With fewer, calls take more than a tenth of the
# time (benchmarks/latency.py); with more, a thousand rows have no second thread.
_ROWS_AT_A_TIME = 512
# Budget of time: of more rows, a thread scores as many at a time as fit into its cache. 16 threads then take 0.6 of
# the time for 200,000 rows.
_FEW_ROWS = 8192
# Training rows, and data for `refit`, are not saved with a model.
_NOT_SAVED = ("_train", "_train_scores", "_forms", "_drawn", "_groups", "_by_weight", "_weights")


class LabelFold(Decisions, ClassNamePrefixFeaturesOutMixin, RowsTransformer):
    r"""Many views of the rows, weighted by how well they predict the labels, folded into one score and embedding.

    A view is a feature map :math:`\varphi_v(x)`: the columns, principal coordinates, an RBF or Laplace kernel, or the
    smoothest functions on a neighbour graph. In each view, and for each ridge g, the labels are regressed on the
    labelled rows,

    .. math:: f_{vg} = \arg\min \sum_i \|y_i - f(x_i)\|^2 + g \|f\|_v^2,

    and the leave-one-out error e is computed in closed form. The blended score is

    .. math:: F(x) = \sum_{vg} w_{vg} f_{vg}(x), \qquad
              w_{vg} \sim p_v \Bigl(\frac{l e_{vg} + 20 u_{vg}}{l + 20}\Bigr)^{-(l + 20) / 3},
              \qquad e_{vg} = \frac{1}{l} \sum_i \Bigl\|\frac{y_i - f_{vg}(x_i)}{1 - h_{ii}}\Bigr\|^2,

    with a prior p, and u the mean squared distance of the scores of unlabelled rows from the nearest class. In
    addition a tenth of the weight goes to the linear views, and on tables up to half of it to the Laplace views.

    On tables of at most 100 columns F is then blended with the score T of extra trees on the labelled rows,

    .. math:: (1 - s) F(x) + s T(x), \qquad s = \tfrac12 \min\bigl(1, (e_T / e_F)^{-l / 60}\bigr),

    where each tree is grown without a tenth of the labelled rows, and e is the squared error on left-out rows. Trees
    split on one column at a time, and find patterns that views of all columns miss: a few relevant columns, and
    thresholds.

    Rows that belong together, such as the visits of a patient, are left out together if ``fit`` gets ``groups``.
    Otherwise exact copies among the labelled rows are left out together, if they are copies of each other
    significantly more often than of other rows. With groups, l is the number of groups.

    A row of weight w counts as w copies that are left out together: all sums and means over rows are weighted, but l
    stays the number of groups. With the views "linear", "principal", "rbf" and "laplace", and whole weights, the
    result is that of the repeated rows with copies as groups. Trees, and graphs with drawn anchors, agree in the mean
    over seeds. If all rows are anchors, repeated rows are anchors of each other, and graphs differ by that.

    ==================  ===================================================================================
    here                what it is
    ==================  ===================================================================================
    Y (l, c)            coded labels: -1 and +1 for two classes, indicators for more, or labels, or numbers
    K_v (l, l)          inner products of labelled rows in a view, of mean squared norm 1 over all rows
    H (l, l)            hat matrix, K_k (K_k + g I)^-1 with K_k = K_v + 0.1: a shrunk intercept
    F (n, c)            the blended score
    Z (n, k)            the embedding: discriminant directions of F
    ==================  ===================================================================================

    Views start from a form of the columns. Tables are used as they are, as ranks and, up to 100 columns, with unit
    variance; word counts with tf-idf and with square roots; other wide sparse rows with unit length.

    Parameters
    ----------
    n_components : int, default=None
        Number of coordinates of the embedding. When None, these are the discriminant directions of F: the number of
        classes less one, or one for each label or number. Further coordinates are principal components of the blended
        features.
    views : "auto" or sequence of str, default="auto"
        Families of views to use, from "linear", "principal", "rbf", "laplace", "graph" and "trees". "auto" uses
        Laplace views (kernels of sums of absolute differences) and trees only for tables of at most 100 columns.
    forms : "auto" or sequence of str, default="auto"
        Forms of the columns: "as they are", "unit variance", "ranks", "unit rows", "tf-idf", "root counts". "auto"
        chooses by the values of X.
    n_anchors : int, default=1000
        Number of anchors of the graph: k-means centres, or all rows if there are not many more rows than anchors.
    ridges : sequence of float, default=None
        Candidate ridges above 0, for features of mean squared norm 1; 0.001, 0.01, 0.1, 1 and 10 when None.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, or of the labels. They multiply the weights of the labelled rows in the regressions,
        the trees, the weights of the views and the calibration of probabilities, but not in ``loo_score_``.
        "balanced" gives all classes the same total weight, which finds more rows of rare classes.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether y holds classes or numbers; "auto" reads floats with fractions as numbers.
    max_gram_bytes : int, default=512 MB
        Up to this size the rows are kept in memory in all of their forms, if necessary in float32. Larger ones are
        recomputed in each pass.
    random_state : int, RandomState instance or None, default=0
        Seed of k-means, of the trees and of the samples from which quantiles and kernel means are estimated.
    verbose : int, default=0
        1 shows a progress bar over the forms.
    unlabeled : int, str or None, default=-1
        The value in y that marks a row as unlabelled; missing values (None, NaN, pandas.NA) always do.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, k)
        The embedding of the training rows, equal to that of `transform`.
    view_weights_ : dict of str to ndarray
        A table of the views, heaviest first: "view", "form", "family", "weight", "loo_error" (with the best ridge of
        the view), "ridge" (the best one) and "left_out" (why a view could not be used, or empty). It can be passed to
        ``pandas.DataFrame``.
    loo_score_ : float
        Leave-one-out accuracy (R^2 for numbers) on the labelled rows, weighted by ``sample_weight``, with the weights
        of views recomputed without the row. The only row of a class is not counted. With groups a row is left out
        with its group, and the rows of a class that is in one group only are not counted; NaN if fewer than two
        classes are counted then.
    loo_interval_ : tuple of float
        A 90% interval for the accuracy, or R^2, on other rows. It held in 87 to 91 of 100 cases in
        experiments/label_fold.py, and for R^2 in 89 in experiments/regression.py.
    loo_predictions_ : ndarray of shape (l,) or (l, c)
        Leave-one-out predictions of the labelled rows, in their order.
    loo_confidence_ : ndarray of shape (l,)
        Probabilities of these predictions; with several labels a row, that all of them are right. Absent for numbers.
    groups_ : ndarray of shape (l,)
        The group of each labelled row. Every row is a group by itself unless ``fit`` is given groups or finds copies.
    transduction_ : ndarray of shape (n,) or (n, c)
        The predictions for the training rows.
    label_distributions_ : ndarray of shape (n, c)
        The probability of each class, or of each label, for the training rows. Absent for numbers, and in a saved
        model.
    classes_ : ndarray of shape (c,)
        The class values; absent for numbers.
    task_ : {"binary", "multiclass", "multilabel", "regression"}
    n_features_in_ : int
        Number of columns of X in fit.
    feature_names_in_ : ndarray of str
        Names of the columns, if X has any.

    Notes
    -----
    Memory beside a dense X, at most: ``6*X + 64*a*(a + d)`` bytes in fit, none in transform, and 24 MB
    (docs/memory.md).

    Cost: for each form two to four passes over the rows, a decomposition of a d x d matrix (d up to 4,000; iterative
    for more), a search among the m anchors, O(n m d), and m x m eigenproblems; then an l x l eigenproblem for each
    view. All of it is linear in n. Memory beside the rows: O(m (m + d)) and, for `refit`, two numbers for each
    nearest anchor of a row, in each space. They stay with the rows: on the device of a tensor, or on the workers of a
    Dask array, where `embedding_`, `transduction_` and predictions stay too.

    A score costs a few products for each row, for any number of views: views of one form that are linear in its
    columns fold into one d x c matrix, views of one graph into one m x c matrix.

    References
    ----------
    W. Liu, J. He, S.-F. Chang. Large graph construction for scalable semi-supervised learning. ICML 2010 (anchors).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from labelfold import LabelFold
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> known = np.where(np.arange(len(y)) % 15 == 0, y, -1)    # 48 labels
    >>> fold = LabelFold().fit(X, known)
    >>> fold.transform(X).shape
    (720, 3)
    >>> bool(fold.score(X, y) > 0.97)
    True
    """

    embedding_: Any
    loo_score_: float

    _allowed = ("binary", "multiclass", "multilabel", "regression")
    _before_scores = (*Decisions._before_scores, *_NOT_SAVED, "_scores", "_embedding")
    _by_weight: list[View]
    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "views": [StrOptions({"auto"}), "array-like"],
        "forms": [StrOptions({"auto"}), "array-like"],
        "n_anchors": [Interval(Integral, 2, None, closed="left")],
        "ridges": ["array-like", None],
        **constraints("class_weight", "task", "max_gram_bytes", "random_state", "verbose"),
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        views: Literal["auto"] | Sequence[str] = "auto",
        forms: Literal["auto"] | Sequence[str] = "auto",
        n_anchors: int = 1000,
        ridges: Sequence[float] | np.ndarray | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        task: Literal["auto", "classification", "regression"] = "auto",
        max_gram_bytes: int = MAX_GRAM_BYTES,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
        unlabeled: Any = -1,
    ) -> None:
        self.n_components = n_components
        self.views = views
        self.forms = forms
        self.n_anchors = n_anchors
        self.ridges = ridges
        self.class_weight = class_weight
        self.task = task
        self.max_gram_bytes = max_gram_bytes
        self.random_state = random_state
        self.verbose = verbose
        self.unlabeled = unlabeled

    @fitting
    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Compute the views of all rows, and weight them by the labels.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, labelled or not, in any container that `labelfold.rows.as_rows` takes.
        y : array-like of shape (n,), (n, c) for multi-label or (n, t) for several numbers
            Classes, 0/1 labels or numbers. ``unlabeled`` (not in regression) or a missing value marks unlabelled
            rows.
        groups : array-like of shape (n,), default=None
            Rows with an equal value belong together and are left out together. Rows without a value are left out
            one by one. When None, exact copies among the labelled rows are groups if there are significantly more
            of them than between labelled and other rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows; a row of weight 0 is left out.

        Returns
        -------
        self : LabelFold
            The fitted estimator.
        """
        rows = self._rows(X, reset=True)
        labels, self._weights = self._read_weighted(y, sample_weight, rows.shape[0])
        if rows.shape[0] == 1 or (self._weights is not None and np.count_nonzero(self._weights) == 1):
            raise ValueError("X has one sample, and a view takes two that differ; give it more rows")
        self._chosen_ridges()
        self._groups = None if groups is None else read_groups(groups, rows.shape[0])
        with single_blas():  # work is parallel over rows and graphs
            self._learn_views(rows)
            self._learn_labels(labels)
        if groups is None and len(set(self.groups_)) < len(self.groups_):
            copied = int((np.bincount(self.groups_)[self.groups_] > 1).sum())
            warn_user(
                f"{copied} of the {len(self.groups_)} labelled rows are exact copies of another labelled row, far "
                "more often than of other rows, so copies are left out together; groups=range(len(y)) leaves each "
                "out alone"
            )
        return self

    def refit(self, y: Any, *, groups: Any = None, sample_weight: Any = None, full: bool = False) -> Self:
        """Fit other labels of the same rows, with the views of `fit`.

        Only l x l problems are solved again. Views with a negligible weight are left out, unless ``full``.

        Parameters
        ----------
        y : array-like of shape (n,), (n, c) for multi-label or (n, t) for several numbers
            The labels of the rows of `fit`. They may be more, fewer or different.
        groups : array-like of shape (n,), default=None
            Rows with an equal value belong together; those of `fit` when None.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows in the sums over labelled rows and over scores; those of `fit` when None. The views
            keep the weights of `fit`.
        full : bool, default=False
            Whether all views are weighted again, as in `fit`.

        Returns
        -------
        self : LabelFold
            The estimator itself, fitted to the new labels.
        """
        check_is_fitted(self)
        if not hasattr(self, "_forms"):
            raise ValueError(
                "refit needs the training rows, which a saved model does not hold; fit again instead"
            )
        n = self._train.shape[0]
        if groups is not None:
            self._groups = read_groups(groups, n)
        if sample_weight is not None:
            self._weights = read_weights(sample_weight, n)
        with single_blas():
            self._learn_labels(self._read_labels(y, n, self._weights), full=full)
        return self

    @overload
    def transform(self, X: HostRows) -> np.ndarray: ...
    @overload
    def transform(self, X: Any) -> Any: ...
    def transform(self, X: Any) -> Any:
        """Embed rows, each independently of the others.

        Parameters
        ----------
        X : container of shape (n, d)
            Rows, in any container that `labelfold.rows.as_rows` takes.

        Returns
        -------
        Z : array of shape (n, n_components)
            In host memory for arrays and files; otherwise on the device or cluster of X.
        """
        check_is_fitted(self)
        return self._mapped(self._rows(X, reset=False), self._embedding, self._n_features_out)

    def view_scores(self, X: Any) -> dict[tuple[str, str], np.ndarray]:
        """Return the contribution of each kind of view to the blended score of rows, before their common offset.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, d)
            Rows in memory.

        Returns
        -------
        parts : dict
            Scores of shape (n, c) for each (family, form of the columns), named as in ``view_weights_``. Principal
            views are part of the linear ones, since both are weighted sums of the columns.
        """
        check_is_fitted(self)
        return self._scores.by_kind(self._rows(X, reset=False).whole().host())

    @property
    def label_distributions_(self) -> np.ndarray:
        """Return the probabilities of the training rows."""
        if not hasattr(self, "_train_scores") or self.task_ == "regression":
            raise AttributeError("label_distributions_ takes classes, and the training rows")
        return self._train.result(self._train_scores, self._after_scores()._shares)

    def _chosen_ridges(self) -> np.ndarray:
        if self.ridges is None:
            return default_ridges()
        return np.array(nonnegative_numbers("ridges", self.ridges, zero=False))

    def _learn_views(self, rows: Rows) -> None:
        """Learn everything that does not depend on the labels."""
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self._train, weights = rows, self._weights
        counted = np.arange(rows.shape[0]) if weights is None else np.flatnonzero(weights)
        self._drawn = counted[np.random.default_rng(self._seed).permutation(len(counted))[:_FOR_COPIES]]
        seen = rows if len(counted) == rows.shape[0] else rows.take(np.sort(self._drawn))
        views = chosen_views(seen, self.forms, self.views)
        self._has_trees = TREES in views
        names = list(dict.fromkeys(view.form for view in views if view != TREES))
        self._forms, budget = [], float(self.max_gram_bytes)
        with Progress("LabelFold", len(names), self.verbose) as progress:
            for i, name in enumerate(names):
                form = FormViews(
                    name,
                    rows,
                    [view for view in views if view.form == name and view != TREES],
                    n_anchors=self.n_anchors,
                    max_bytes=budget,
                    sample=np.sort(self._drawn[:_OTHERS]),
                    seed=self._seed,
                    weights=weights,
                )
                self._forms.append(form)
                budget -= form.n_bytes
                if progress(i + 1, 0.0):
                    break

    def _learn_labels(self, labels: Labels, full: bool = True) -> None:
        """Weight the views by the labels, and store score, embedding and predictions.

        If not ``full``, only the heaviest views are used, as many as can be solved at once.
        """
        ridges, groups = self._chosen_ridges(), self._groups_of(labels.index)
        self.groups_: np.ndarray = groups.codes
        weighted = class_weighted(labels, self.class_weight)
        targets = targets_of(weighted, groups)
        views, forms = None, self._forms
        if not full:
            views = set(self._by_weight[: max(8, _REFIT_WORK // labels.n_labelled)])
            forms = [form for form in forms if views.intersection(form.scales)]
        others = np.sort(self._drawn[:_OTHERS])
        unlabelled, other_weights = ~labels.labelled[others], None
        if self._weights is not None:
            unlabelled &= self._weights[others] > 0
            other_weights = self._weights[others[unlabelled]]
        found = solve(forms, labels.index, unlabelled, targets, ridges, views, other_weights)
        reasons = [line for form in self._forms for line in form.reasons.items()]
        if self._has_trees:
            found, why = self._with_trees(found, labels, targets, full)
            reasons += [(TREES, why)] if why else []
        if not found.views and not found.scores.share:
            warn_user(
                "no view of X could be made, so every row is predicted alike; view_weights_ has the reasons"
            )
        self._keep_task(labels.task, labels.classes, labels.values.ndim == 1)
        self._store_weights(found, ridges, reasons)
        weights = dict(zip(found.views, found.weights.sum(axis=1).tolist(), strict=True))
        if full:
            self._by_weight = sorted(weights, key=lambda view: -weights[view])
        shift = self._calibrate(found.left_out, labels, groups, weighted.weights)
        self._scores = found.scores.shifted(shift)
        self._train_scores = self._scores.of_training(forms, self._train)
        self._embedding, self.embedding_ = embed(
            self._scores,
            weights,
            self._train_scores,
            weighted,
            self.n_components,
            self._train,
            forms,
            self._weights,
        )
        self.transduction_: Any = self._train.result(self._train_scores, self._after_scores()._decide)

    def _groups_of(self, index: np.ndarray) -> Groups:
        """Return the groups of labelled rows: as given, or copies if there are more than chance explains."""
        if self._groups is not None:
            given = self._groups.take(index)
            given.refuse_one_group()
            return given
        own = row_hashes(self._train.take(index).whole().host())
        if len(np.unique(own)) < len(own):
            # Other rows, as many as the budget for the rows in all forms allows.
            room = max(_OTHERS, int(self.max_gram_bytes / max(self._train.row_bytes(), 1)))
            others = np.setdiff1d(self._drawn[:room], index)
            hashes = self._train.map(_hashes)
            found = copies_of(own, self._train.pick(hashes, others))
            if found.beyond_chance:
                return found.groups
        return Groups.single(len(index))

    def _with_trees(
        self, found: Solution, labels: Labels, targets: Targets, full: bool
    ) -> tuple[Solution, str]:
        """Return the solution blended with trees on the labelled rows, or why there are none."""
        grown = grow(
            self._train.take(labels.index).whole().double().host(),
            targets.Y + targets.offset,
            targets.scale,
            labels.task == "regression",
            self._seed,
            targets.groups,
            weights=targets.weights,
            **({} if full else {"per_part": _REFIT_TREES}),
        )
        if isinstance(grown, str):
            return found, grown
        return found.with_trees(grown, targets, 0.0 if full else MINOR), ""

    def _store_weights(self, found: Solution, ridges: np.ndarray, reasons: list[tuple[View, str]]) -> None:
        lines = [
            (view, w.sum(), errors.min(), ridges[errors.argmin()], "")
            for view, w, errors in zip(found.views, found.weights, found.errors, strict=True)
        ]
        if found.scores.share:
            lines.append((TREES, found.scores.share, found.tree_error, np.nan, ""))
        lines.sort(key=lambda line: -line[1])
        lines += [(view, 0.0, np.nan, np.nan, why) for view, why in reasons]
        used, weight, error, ridge, left_out = zip(*lines, strict=True) if lines else [()] * 5
        self.view_weights_: dict[str, Any] = {
            "view": np.array([view.name for view in used], dtype=str),
            "form": np.array([view.form for view in used], dtype=str),
            "family": np.array([view.family for view in used], dtype=str),
            "weight": np.array(weight, dtype=np.float64),
            "loo_error": np.array(error, dtype=np.float64),
            "ridge": np.array(ridge, dtype=np.float64),
            "left_out": np.array(left_out, dtype=str),
        }

    def _calibrate(
        self, left_out: np.ndarray, labels: Labels, groups: Groups, weights: np.ndarray | None
    ) -> float:
        """Calibrate probabilities on leave-one-out scores, store these results, and return the shift of scores."""
        self._steepness, shift, (self.loo_score_, *interval) = calibrate(left_out, labels, groups, weights)
        self.loo_interval_: tuple[float, ...] = tuple(interval)
        left_out = left_out + shift
        self.loo_predictions_: np.ndarray = self._decide(left_out)
        self.__dict__.pop("loo_confidence_", None)
        if self.task_ != "regression":
            p = self._shares(left_out)
            several = self.task_ == "multilabel"
            self.loo_confidence_: np.ndarray = np.maximum(p, 1 - p).prod(axis=1) if several else p.max(axis=1)
        return shift

    def _score_rows(self, rows: Rows) -> Any:
        return self._mapped(rows, self._scores, len(self._scores.bias))

    @staticmethod
    def _mapped(rows: Rows, transform: Any, width: int) -> Any:
        """Return a function of new rows."""
        with single_blas():  # for few rows, threads of BLAS would mostly wait for each other
            few = rows.shape[0] <= _FEW_ROWS
            return Featurized(
                rows, transform, width=width, most_rows=_ROWS_AT_A_TIME if few else None
            ).values()

    def _log_odds(self, F: np.ndarray) -> np.ndarray:
        """Return log odds, calibrated on leave-one-out scores."""
        return self._steepness * F

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def __sklearn_is_fitted__(self) -> bool:
        """Tell whether there is a score."""
        return hasattr(self, "_scores")

    def __copy__(self) -> Self:
        """Return a copy that shares the views and the training rows, which a saved model lacks."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to save: everything but the training rows, without objects of other classes."""
        state = super().__getstate__()
        return plain({name: value for name, value in state.items() if name not in _NOT_SAVED})

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a saved state."""
        super().__setstate__(rebuilt(state))


def unsupervised(fold: LabelFold, index: np.ndarray, n_coordinates: int = 20) -> np.ndarray:
    """Return principal coordinates of some training rows in every form of the columns.

    Forms have equal weight: the mean squared norm of each over all rows is 1.

    Parameters
    ----------
    fold : LabelFold
        A fitted model with its training rows.
    index : ndarray of shape (t,)
        Indices of training rows.
    n_coordinates : int
        Number of coordinates for each form.

    Returns
    -------
    R : ndarray of shape (t, k)
    """
    parts = [np.zeros((len(index), 1))]
    for form in fold._forms:
        axes = form.axes.first(n_coordinates)
        if len(index) and len(axes.deviations):
            T = form.rows.take(index).whole().double().host()
            parts.append(axes(T) / np.sqrt((axes.deviations**2).sum()))
    return np.hstack(parts)


def _hashes(X: Block) -> np.ndarray:
    return row_hashes(X.host())
