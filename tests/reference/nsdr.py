"""NSDR, transcribed from Grabocka & Schmidt-Thieme: dense, naive, libsvm for the machine, L-BFGS over all variables.

Corrected: eq. 32 is a minimum over U of a maximum over alpha (its printed slopes are those), and bu is penalised
with U.
"""

import numpy as np
from scipy.optimize import minimize
from sklearn.svm import SVC

from reference.lsdr import factor_part


def kernel(z, other, *, name="poly", degree=2, gamma=1.0, coef0=1.0):
    """Return K(z, other) of two rows and its slope in z."""
    if name == "poly":
        base = gamma * (z @ other) + coef0
        return base**degree, degree * gamma * base ** (degree - 1) * other
    value = np.exp(-gamma * np.sum((z - other) ** 2))
    return value, -2 * gamma * (z - other) * value


def machine(Z, y, C, **options):
    """Return the signed dual variables of libsvm's machine, and its bias."""
    K = np.array([[kernel(z, other, **options)[0] for other in Z] for z in Z])
    found = SVC(C=C, kernel="precomputed", tol=1e-9, cache_size=50).fit(K, y)
    s = np.zeros(len(y))
    s[found.support_] = found.dual_coef_[0]
    return s, found.intercept_[0], K


def objective(X, U, bu, V, bv, T, index, *, C, b, lu, lv, **options):
    """Return the objective and its slopes in U, bu, V and bv (eqs. 36-39 for both places of a pair)."""
    f, dU, dbu, dV, dbv = factor_part(X, U, bu, V, bv, b, lu, lv)
    Z = np.column_stack([U, bu])[index]
    for j in range(T.shape[1]):
        s, _, K = machine(Z, T[:, j], C, **options)
        f += (1 - b) * (np.sum(s * T[:, j]) - 0.5 * s @ K @ s)
        for row, i in enumerate(index):
            for other in range(len(index)):
                slope = -(1 - b) * s[row] * s[other] * kernel(Z[row], Z[other], **options)[1]
                dU[i] += slope[:-1]
                dbu[i] += slope[-1]
    return f, dU, dbu, dV, dbv


def descend(X, U, bu, V, bv, T, index, max_iter, **options):
    """Return the factors after L-BFGS over all variables at once, and the objective."""
    shapes = [np.shape(a) for a in (U, bu, V, bv)]
    cuts = np.cumsum([np.prod(shape) for shape in shapes])[:-1]

    def unpack(x):
        return [part.reshape(shape) for part, shape in zip(np.split(x, cuts), shapes, strict=True)]

    def value(x):
        f, *slopes = objective(X, *unpack(x), T, index, **options)
        return f, np.concatenate([np.ravel(slope) for slope in slopes])

    start = np.concatenate([np.ravel(a) for a in (U, bu, V, bv)])
    found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": max_iter, "ftol": 1e-15})
    return unpack(found.x), found.fun
