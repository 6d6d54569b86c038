"""Model selection with unlabelled rows: splitters, scorers, and the one-standard-error rule.

scikit-learn's splitters treat -1 as a class, test on unlabelled rows, or raise an error for NaN. These keep every
unlabelled row in training and test on held-out labelled rows. They can be passed as ``cv=`` to scikit-learn, with y
in any form that the estimators take.

Examples
--------
>>> import numpy as np
>>> from sklearn.datasets import load_digits
>>> from sklearn.model_selection import GridSearchCV
>>> from labelfold import LDA
>>> X, y = load_digits(return_X_y=True)
>>> y = np.where(np.arange(len(y)) % 9, np.nan, y)  # one label in nine is known
>>> search = GridSearchCV(
...     LDA(ridge=1e3), {"n_components": [2, 5, 8, 9]}, cv=SemiSupervisedKFold(5), refit=OneStandardError()
... ).fit(X, y)
>>> search.best_params_
{'n_components': 8}
"""

from labelfold.model_selection._budgets import LabelBudgetSplit, LabelProblem, default_budgets, label_curve
from labelfold.model_selection._folds import RepeatedSemiSupervisedKFold, SemiSupervisedKFold
from labelfold.model_selection._scoring import LabelledScorer, OneStandardError

__all__ = [
    "LabelBudgetSplit",
    "LabelProblem",
    "LabelledScorer",
    "OneStandardError",
    "RepeatedSemiSupervisedKFold",
    "SemiSupervisedKFold",
    "default_budgets",
    "label_curve",
]
