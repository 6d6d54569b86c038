"""The warning about values of new rows that a recipe has not seen."""

from __future__ import annotations


class UnseenValuesWarning(UserWarning):
    """Most cells of a column in new rows hold values that `labelfold.Recipe` has not seen, or cannot parse.

    Predictions then rest on the other columns.

    Examples
    --------
    >>> import warnings
    >>> import pandas as pd
    >>> from labelfold import Recipe, UnseenValuesWarning
    >>> table = pd.DataFrame({"plan": ["basic", "full", "full", "basic"] * 9})
    >>> recipe = Recipe().fit(table)
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     _ = recipe.transform(table["plan"].str.upper().to_frame())
    >>> seen[0].category is UnseenValuesWarning
    True
    """
