"""LabelFold, transcribed: n x n kernels, one row left out at a time, no shortcut."""

import numpy as np

FILTERS = {
    "1/(t+.02)^2": lambda t: 1 / (t + 0.02) ** 2,
    "1/(t+.02)^3": lambda t: 1 / (t + 0.02) ** 3,
    "1/(t+.02)^6": lambda t: 1 / (t + 0.02) ** 6,
    "exp(-30t)": lambda t: np.exp(-30 * t),
}


def kernel(view, T, labelled):
    """Return the kernel (n, n) of all rows in a view, of mean squared norm 1."""
    T = T - T.mean(axis=0)
    U, s, _ = np.linalg.svd(T, full_matrices=False)
    s = s[s > 1e-7 * s[0]]
    C = U[:, : len(s)] * s
    if view.space:
        C, s = C[:, : view.space], s[: view.space]
    if view.family == "linear":
        phi = T
    elif view.family == "principal":
        phi = C / (s / np.sqrt(len(T))) ** view.value
    elif view.family == "graph":
        phi = graph_features(C, int(view.value), view.filter)
    else:
        D = (
            np.abs(T[:, None] - T[None]).sum(axis=2)
            if view.family == "laplace"
            else ((C[:, None] - C[None]) ** 2).sum(axis=2)
        )
        K = np.exp(-view.value * D / D.mean())
        K = K / (1 - K.mean())
        return (
            K
            - K[:, labelled].mean(axis=1)[:, None]
            - K[labelled].mean(axis=0)
            + K[np.ix_(labelled, labelled)].mean()
        )
    K = phi @ phi.T
    return K / np.trace(K) * len(K)


def graph_features(C, s, name):
    """Return the eigenvectors of the graph in which all rows are anchors, times the roots of their weights."""
    n = len(C)
    Z = np.zeros((n, n))
    for i in range(n):
        d = np.linalg.norm(C - C[i], axis=1)
        near = np.argsort(d, kind="stable")[:s]
        Z[i, near] = np.exp(-4 * d[near] ** 2 / d[near[-1]] ** 2)
        Z[i] /= Z[i].sum()
    W = Z / Z.sum(axis=0) @ Z.T
    values, U = np.linalg.eigh((W + W.T) / 2 - np.ones((n, n)) / n)
    values, U = values[::-1][:150], U[:, ::-1][:, :150]
    values, U = values[values > 1e-8], U[:, values > 1e-8]
    w = np.array([FILTERS[name](1 - value) for value in values])
    return U * np.sqrt(w)


def left_out(K, Y, ridge, groups=None):
    """Return the residual of each labelled row where it, or its group, is left out, by fitting without it."""
    residuals, groups = np.zeros_like(Y), np.arange(len(Y)) if groups is None else np.asarray(groups)
    for i in range(len(Y)):
        rest = np.flatnonzero(groups != groups[i])
        alpha = np.linalg.solve(K[np.ix_(rest, rest)] + ridge * np.eye(len(rest)), Y[rest])
        residuals[i] = Y[i] - K[i, rest] @ alpha
    return residuals


def blend(forms, views, Y, labelled, ridges, constant, decided):
    """Return the blended score of all rows and the weight of each view.

    ``forms`` are the rows in each form by name, Y the coded targets of the rows ``labelled``; ``decided`` says
    whether scores on the other rows count.
    """
    n, size = len(next(iter(forms.values()))), len(labelled)
    rest = np.setdiff1d(np.arange(n), labelled)
    logs, scores = np.zeros((len(views), len(ridges))), []
    for v, view in enumerate(views):
        K = kernel(view, forms[view.form], labelled) + constant
        for r, ridge in enumerate(ridges):
            own = K[np.ix_(labelled, labelled)]
            e = (left_out(own, Y, ridge) ** 2).sum() / size
            F = K[:, labelled] @ np.linalg.solve(own + ridge * np.eye(size), Y)
            logs[v, r] = -size / 3 * np.log(e)
            if decided:
                u = np.mean([doubt(f) for f in F[rest]])
                logs[v, r] = -(size + 20) / 3 * np.log((size * e + 20 * u) / (size + 20))
            scores.append(F)
    w = shared(views, logs, lambda view: True)
    if any(view.family == "laplace" for view in views):
        best = {view: np.log(view.prior) + log.max() for view, log in zip(views, logs, strict=True)}
        laplace = max(value for view, value in best.items() if view.family == "laplace")
        share = 0.5 * np.exp(0.05 * (laplace - max(best.values())))
        w = (1 - share) * w + share * shared(views, logs, lambda view: view.family == "laplace")
    w = 0.9 * w + 0.1 * shared(views, logs, lambda view: view.family == "linear")
    w[w < 1e-4 * w.max()] = 0
    w /= w.sum()
    return np.tensordot(w.ravel(), np.array(scores), axes=1), w.sum(axis=1)


def shared(views, logs, chosen):
    """Return weights (v, r) that sum to 1 over some views: each by its best ridge, its ridges among themselves."""
    w = np.zeros_like(logs)
    for v, view in enumerate(views):
        if chosen(view):
            w[v] = np.exp(logs[v] - logs[v].max())
            w[v] *= view.prior * np.exp(logs[v].max() - logs.max()) / w[v].sum()
    return w / w.sum()


def doubt(f):
    """Return how far a row's scores are from those of a class."""
    if len(f) == 1:
        return (1 - min(abs(f[0]), 3)) ** 2
    f = f + 1 / len(f)
    return ((np.clip(f, -1, 2) - (f == f.max())) ** 2).sum()
