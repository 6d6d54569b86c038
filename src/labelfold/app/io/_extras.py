"""The packages of the app that many of its modules use. Without them only what uses them fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labelfold.tables import installed, pa, pc

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow import csv as arrow_csv
else:
    _NEEDED = "The app of labelfold needs pandas and pyarrow: pip install 'labelfold[app]'."
    pd = installed("pandas", _NEEDED)
    arrow_csv = installed("pyarrow.csv", _NEEDED)

__all__ = ["arrow_csv", "pa", "pc", "pd"]
