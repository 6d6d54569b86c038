"""Model selection with unlabelled rows: splitters, scorers, and the one-standard-error rule.

scikit-learn's splitters treat -1 as a class, test on unlabelled rows, or raise an error for NaN. These keep every
unlabelled row in training and test on held-out labelled rows. They can be passed as ``cv=`` to scikit-learn, with y
in any form that the estimators take.

``scoring="accuracy"``, like any other scorer of scikit-learn, counts -1 in a partly labelled y as a class of its own,
and raises an error for NaN and None. Leave ``scoring`` out, as in the example: the ``score`` of the estimators leaves
unlabelled rows out. For another measure pass ``scoring=LabelledScorer("balanced_accuracy")``. With the splitters of
this module all test rows are labelled, and every scorer is right.

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

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
