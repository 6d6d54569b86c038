"""The embedding: discriminant directions of the blended score, then principal components of the blended features."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logsumexp, softmax
from scipy.stats import beta, norm
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from labelfold.base import Decisions, RowsTransformer
from labelfold.features import distances
from labelfold.labels import Labels
from labelfold.model_selection import Groups
from labelfold.numerics import signed
from labelfold.rows import Centered, Featurized, Rows
from labelfold.semi_supervised._fold import BlendedScores, kernel_root
from labelfold.semi_supervised._solver import Solution
from labelfold.semi_supervised._views import FormPieces, graph_weights, width
from labelfold.utils import warn_user

# Directions whose eigenvalue is below this share of the largest are round-off.
_ROUND_OFF = 1e-10
# Features whose variance is below this share of the total are left out of the blend.
_NEGLIGIBLE = 1e-6
# Effective number of new rows that a left-out row counts for.
_EFFECTIVE = 0.8
# Bootstrap draws, and the factor by which an interval for R^2 is widened.
_DRAWS, R2_WIDER = 300, 1.5
# Prior of the steepness of scores: its median, and the standard deviation of its logarithm.
_STEEP, _SPREAD = 4.0, 0.3
# Bounds of the logarithm of the steepness.
_LOG_STEEPNESS = (-2.0, 7.0)


class FoldEmbedding:
    """Maps rows to the embedding: (F(x) - mean) turn, then further coordinates if any. For `Featurized`."""

    def __init__(self, scores: BlendedScores, mean: np.ndarray, turn: np.ndarray) -> None:
        self.scores, self.mean, self.turn = scores, mean, turn
        self.blends: list[BlendedFeatures] = []
        self.more: np.ndarray | None = None
        self.shift: np.ndarray | None = None

    def __call__(self, X: Any) -> np.ndarray:
        """Return the embedding of some rows, (n, k)."""
        Z = (self.scores(X) - self.mean) @ self.turn
        if self.more is None:
            return Z
        return np.hstack([Z, self.features(X, Z) @ self.more - self.shift])

    def features(self, X: Any, Z: np.ndarray) -> np.ndarray:
        """Return [Z, G]: the discriminant coordinates and the blended features of some rows."""
        return np.hstack([Z, *(blend(X) for blend in self.blends)])


class BlendedFeatures:
    """The blended features of one form: root-w_v phi_v of all its views, one column for each coordinate.

    Views of the same coordinates differ only in weights, which are added up.
    """

    def __init__(
        self, pieces: FormPieces, shares: dict[Any, float], points: dict[tuple[str, int], Any]
    ) -> None:
        q = len(pieces.deviations)
        squares = np.zeros(q)  # weights of the principal coordinates
        graphs: dict[tuple[int, int], np.ndarray] = {}
        kernels: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for view, share in shares.items():
            share = share / pieces.scales[view.name]
            if view.family == "linear":
                squares += share
            elif view.family == "principal":
                here = slice(view.space or q)
                squares[here] += share * pieces.deviations[here] ** (-2 * view.value)
            elif view.family == "graph":
                key = (view.space, int(view.value))
                graphs[key] = graphs.get(key, 0.0) + share * graph_weights(view, pieces)
            else:
                kernels.setdefault((view.family, view.space), []).append((width(view, pieces), share))
        self.size = np.sqrt(squares * (squares * pieces.deviations**2 > _NEGLIGIBLE))
        self.used = np.flatnonzero(self.size)
        self.graphs = [(*key, _heavy(w, pieces.graphs[key].map)) for key, w in graphs.items()]
        self.kernels = [
            (*key, points[key], terms, kernel_root(_kernel(key[0], points[key], points[key], terms)))
            for key, terms in kernels.items()
        ]

        spaces = {space for space, *_ in self.graphs}
        most = max([0, *spaces, *(space for _, space in kernels), *(self.used[-1:] + 1)])
        self.pieces = pieces.only(spaces, int(most))

    def __call__(self, X: Any) -> np.ndarray:
        """Return the blended features of some rows."""
        placed = self.pieces.place(self.pieces.form._form(X))
        parts = [placed.C[:, self.used] * self.size[self.used]]
        for space, s, turn in self.graphs:
            parts.append(self.pieces.join(space, s, placed) @ turn)
        for family, space, points, terms, root in self.kernels:
            parts.append(_kernel(family, placed.C[:, :space] if space else placed.T, points, terms) @ root)
        return np.hstack(parts)


def embedding_of(
    found: Solution,
    F: np.ndarray,
    index: np.ndarray,
    labels: Labels,
    n_components: int | None,
    rows: Rows,
    pieces: list[FormPieces],
) -> tuple[FoldEmbedding, np.ndarray]:
    """Return the map of rows to the embedding, and the embedding of the training rows.

    Parameters
    ----------
    F : ndarray of shape (n, c)
        The scores of the training rows.
    index : ndarray of shape (l,)
        Indices of the labelled rows.
    labels : Labels
    rows : Rows
        The training rows.
    pieces : list of FormPieces
        The parts that views are built from, by form.
    """
    mean, turn = second_stage(F[index], labels)
    k = turn.shape[1] if n_components is None else n_components
    embedding = FoldEmbedding(found.scores, mean, turn[:, :k])
    Z = (F - mean) @ embedding.turn
    if k <= turn.shape[1]:
        return embedding, Z
    _go_on(embedding, found, k, rows, pieces)
    if embedding.more is None:
        return embedding, Z
    return embedding, np.asarray(rows.get(Featurized(rows, embedding).values()), dtype=np.float64)


def second_stage(F: np.ndarray, labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    r"""Return the mean (c,) and rotation (c, k) that turn scores F (l, c) into discriminant coordinates.

    The scores are those of a symmetric smoother S, F_c = S Y_c, at the labelled rows. With the targets T of LDA (Y
    divided by the square roots of the class sizes), the second stage of the two-stage method is
    :math:`T'ST = E \,\mathrm{diag}(s) E'`, and the directions are :math:`Z = S T E \,\mathrm{diag}(s)^{-1/2}`.
    """
    Y = labels.signs() if labels.task == "binary" else labels.columns()
    size = np.ones(1) if labels.task == "binary" else np.sqrt(np.maximum(Y.sum(axis=0), 1))
    if labels.task == "regression":
        size = np.where(np.ptp(Y, axis=0) > 0, Y.std(axis=0), 1.0)
    mean = F.mean(axis=0)
    D = ((Y - Y.mean(axis=0)) / size).T @ ((F - mean) / size)
    s, E = np.linalg.eigh((D + D.T) / 2)
    s, E = s[::-1], E[:, ::-1]
    keep = s > _ROUND_OFF * max(s[0], 0.0)
    if labels.task == "multiclass":
        keep[-1] = False  # the scores of a row sum to 1
    if not keep.any():
        return mean, np.zeros((Y.shape[1], 1))
    return mean, signed(E[:, keep] / size[:, None] / np.sqrt(s[keep]))


def _go_on(embedding: FoldEmbedding, found: Solution, k: int, rows: Rows, pieces: list[FormPieces]) -> None:
    """Add principal components of the blended features, uncorrelated with the discriminant coordinates."""
    total, by_name = found.weights.sum(axis=1), {piece.name: piece for piece in pieces}
    for piece, folded in zip(found.scores.pieces, found.scores.folded, strict=True):
        shares = {
            view: w for view, w in zip(found.views, total, strict=True) if view.form == piece.name and w > 0
        }
        points = {(kernel.family, kernel.space): kernel.points for kernel in folded.kernels}
        embedding.blends.append(BlendedFeatures(by_name[piece.name], shares, points))
    own = embedding.turn.shape[1]
    both = Centered(Featurized(rows, partial(_with_features, embedding)))
    S = both.gram() / rows.shape[0]
    back = np.linalg.pinv(S[:own, :own]) @ S[:own, own:]  # regression of G on Z
    left = S[own:, own:] - S[own:, :own] @ back
    s, V = np.linalg.eigh((left + left.T) / 2)
    keep = np.flatnonzero(s > _ROUND_OFF * max(S.diagonal()[own:].max(initial=0.0), 0.0))[::-1][: k - own]
    if len(keep) < k - own:
        warn_user(
            f"n_components={k} is more than the {own + len(keep)} that the blended views have; "
            f"{own + len(keep)} are kept"
        )
    if len(keep):
        V = signed(V[:, keep]) / np.sqrt(len(found.left_out))  # on the scale of the discriminant coordinates
        embedding.more = np.vstack([-back @ V, V])
        embedding.shift = both.center @ embedding.more


def _with_features(embedding: FoldEmbedding, X: Any) -> np.ndarray:
    return embedding.features(X, embedding(X))


def _heavy(weights: np.ndarray, map: np.ndarray) -> np.ndarray:
    """Return the map (m, j) to the graph functions that are not negligible, times the roots of their weights."""
    used = weights > _NEGLIGIBLE * weights.max(initial=0.0)
    return map[:, used] * np.sqrt(weights[used])


def _kernel(family: str, X: Any, points: Any, terms: list[tuple[float, float]]) -> np.ndarray:
    D = distances(family, X, points)
    return np.sum([share * np.exp(-g * D) for g, share in terms], axis=0)


class FoldPredictions(Decisions, ClassNamePrefixFeaturesOutMixin, RowsTransformer):
    """An estimator whose blended score and embedding are functions of one row."""

    _allowed = ("binary", "multiclass", "multilabel", "regression")
    _scores: BlendedScores
    _embedding: FoldEmbedding
    _steepness: float
    _offset: float
    _train_scores: np.ndarray
    loo_predictions_: np.ndarray
    loo_confidence_: np.ndarray

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
        return Featurized(self._rows(X, reset=False), self._embedding).values()

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
        return self._shares(self._train_scores)

    def _calibrate(self, left_out: np.ndarray, labels: Labels, groups: Groups) -> None:
        """Calibrate probabilities on leave-one-out scores, and store the leave-one-out score."""
        Y = labels.columns()
        self._steepness, self._offset = 1.0, 0.0
        if self.task_ == "regression":
            own, *interval = r2_interval(Y, left_out, groups)
        elif self.task_ == "multilabel":
            self._steepness, self._offset = logistic(left_out, Y)
            left_out = left_out + self._threshold()
            own, *interval = accuracy_interval(((left_out > 0) == (Y > 0)).all(axis=1), groups)
        else:
            # A class that is in no other group cannot be predicted without the group.
            known = groups.holding(labels.values)[labels.values] > 1
            if not groups.are_single and len(np.unique(labels.values[known])) < 2:
                known[:] = False  # the share that is right of one class says nothing
            F, codes = _by_class(left_out)[known], labels.values[known]
            self._steepness = steepness(F, codes)
            own, *interval = accuracy_interval(F.argmax(axis=1) == codes, groups.some(known))
        self.loo_score_, self.loo_interval_ = own, tuple(interval)
        self.loo_predictions_ = self._decide(left_out)
        if self.task_ != "regression":
            p = self._shares(left_out)
            sure = np.maximum(p, 1 - p).prod(axis=1) if self.task_ == "multilabel" else p.max(axis=1)
            self.loo_confidence_ = sure

    def _score_rows(self, rows: Rows) -> np.ndarray:
        F = np.asarray(rows.get(Featurized(rows, self._scores).values()), dtype=np.float64)
        return F + self._threshold()

    def _threshold(self) -> float:
        """Return the shift after which the sign of a multi-label score decides."""
        return self._offset / self._steepness if self.task_ == "multilabel" else 0.0

    def _shares(self, F: np.ndarray) -> np.ndarray:
        """Return probabilities, calibrated on leave-one-out scores."""
        if self.task_ == "multilabel":
            return expit(self._steepness * F)
        return softmax(self._steepness * _by_class(F), axis=1)


def _by_class(F: np.ndarray) -> np.ndarray:
    """Return one score for each class; for two classes F has a single column."""
    return np.hstack([-F, F]) / 2 if F.shape[1] == 1 else F


def steepness(F: np.ndarray, codes: np.ndarray) -> float:
    """Return a > 0 that maximises the posterior of softmax(a F), given leave-one-out scores F (l, c) and classes.

    log a has a normal prior around log 4, so that few rows, or only correct ones, do not lead to extreme values.
    """

    def loss(log_a: float) -> float:
        A = np.exp(log_a) * F
        fit = A[np.arange(len(codes)), codes] - logsumexp(A, axis=1)
        return float(-fit.sum() + ((log_a - np.log(_STEEP)) / _SPREAD) ** 2 / 2)

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_STEEPNESS, method="bounded").x))


def logistic(F: np.ndarray, Y: np.ndarray) -> tuple[float, float]:
    """Return a, b that maximise the likelihood of 1 / (1 + exp(-a F - b)) given labels Y, all columns together."""
    f, y = F.ravel(), Y.ravel()
    targets = np.where(y > 0, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2))

    def loss(ab: np.ndarray) -> tuple[float, np.ndarray]:
        z = np.exp(ab[0]) * f + ab[1]
        gap = expit(z) - targets
        slope = np.array([(gap * f).sum() * np.exp(ab[0]), gap.sum()])
        return float((np.logaddexp(0, z) - targets * z).sum()), slope

    found = minimize(
        loss, np.array([1.0, -1.0]), jac=True, method="L-BFGS-B", bounds=[_LOG_STEEPNESS, (-1e4, 1e4)]
    )
    return float(np.exp(found.x[0])), float(found.x[1])


def accuracy_interval(right: np.ndarray, groups: Groups) -> tuple[float, float, float]:
    """Return the share of rows that are right, and an interval for it.

    It is the 90 % interval of Clopper and Pearson for four fifths of the rows, since left-out rows are less
    informative than new ones. It covered the accuracy on other rows in 87 to 91 of 100 cases
    (experiments/label_fold.py). Rows of a group count for as many as are independent.
    """
    if not len(right):
        return np.nan, 0.0, 1.0
    rows = _EFFECTIVE * groups.effective(right.astype(float))
    hits = rows * right.mean()
    low = beta.ppf(0.05, hits, rows - hits + 1) if hits > 0 else 0.0
    high = beta.ppf(0.95, hits + 1, rows - hits) if hits < rows else 1.0
    return float(np.mean(right)), float(low), float(high)


def r2_interval(truth: np.ndarray, guess: np.ndarray, groups: Groups) -> tuple[float, float, float]:
    """Return R^2 of left-out predictions (l, t), mean over the targets, and an interval for it.

    It extends 1.645 bootstrap standard deviations to each side, times 1.5, since the model was also fitted to the
    labelled rows. The bootstrap draws whole groups.
    It covered R^2 on other rows in 89 of 100 cases (experiments/regression.py).
    """
    n = len(truth)
    own = float(r2_score(truth, guess)) if n > 1 else np.nan
    g = len(groups)
    drawn = np.random.default_rng(0).multinomial(g, np.full(g, 1 / g), size=_DRAWS)[:, groups.codes]
    centred = truth - truth.mean(axis=0)
    lost = drawn @ (truth - guess) ** 2
    total = drawn @ centred**2 - (drawn @ centred) ** 2 / drawn.sum(axis=1, keepdims=True)
    kept = (total > np.finfo(np.float64).eps * n * (centred**2).max(initial=0)).all(axis=1)
    values = 1 - (lost[kept] / total[kept]).mean(axis=1)
    if len(values) < _DRAWS / 2:  # with few rows most draws repeat a single row
        return own, -np.inf, 1.0
    half = norm.ppf(0.95) * R2_WIDER * values.std()
    return own, float(own - half), float(min(own + half, 1.0))
