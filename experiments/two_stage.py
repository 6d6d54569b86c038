"""Table 2 and Figures 1 to 5 of Sun, Ceran & Ye (KDD 2010): the two-stage approach against the direct one.

    python experiments/two_stage.py              everything, about half an hour on one core
    python experiments/two_stage.py --quick      a small test, seconds

Real data comes from the folder LABELFOLD_DATA (see DATA.md); otherwise every set is generated with its shape. Each
number is written to two_stage.csv as soon as it is known, and a re-run computes only missing ones; two_stage.md is
written from the CSV file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from common import experiment, pinned
from data_sets import rng_of, sparse_text
from labelfold import CCA, HSL, LDA, OPLS
from result_rows import Results  # noqa: F401 - the tests take it from here
from two_stage_parts.classifiers import classifiers
from two_stage_parts.report import write_report
from two_stage_parts.runs import figures_1_2, scaling, table_2
from two_stage_parts.sets import QUICK, Plan

PARTS = {"table": table_2, "accuracy": figures_1_2, "classifiers": classifiers, "scaling": scaling}


def warm_up() -> None:
    """Import and compile everything that the timed fits need."""
    X, Y = sparse_text(rng_of("warm-up"), 60, 80, 4, 8, labels=True)
    for method in (CCA, OPLS, HSL):
        for budget in (0, 1e6):
            method(ridge=1.0, max_gram_bytes=budget).fit(X, Y)
            method(ridge=1.0, max_gram_bytes=budget).fit(X.toarray(), Y)
    LDA(ridge=1.0).fit(X, Y[:, 0])


def main(arguments: Sequence[str] | None = None) -> Path:
    """Compute missing rows, then write the report; return its path."""
    with pinned(1):
        warm_up()
    return experiment(__doc__, "two_stage", Plan(), QUICK, PARTS, write_report, arguments)


if __name__ == "__main__":
    main()
