"""Ridge regression of many targets on centred rows, for one ridge after another."""

from labelfold.numerics.least_squares._pose import MAX_GRAM_BYTES, pose
from labelfold.numerics.least_squares._problem import LeastSquares, LeastSquaresProblem

__all__ = ["MAX_GRAM_BYTES", "LeastSquares", "LeastSquaresProblem", "pose"]
