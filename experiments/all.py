"""Every experiment on a published paper, from the data, one after the other; then the pages of docs/papers.

    LABELFOLD_DATA=/folder/of/npz python experiments/all.py     hours on one core; goes on where it was stopped
    python experiments/all.py --quick                           small pieces of everything, minutes

Or: make experiments. Rows that are in results/*.csv are kept: delete those that should be made again.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
PAPERS = ("two_stage", "drsvm", "subspace", "nsdr", "nsdr_grid", "nmf_alpha", "nmf_alpha_tuned")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the experiments, each in a process of its own, and make the pages where results were written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small pieces, written to the temporary folder")
    parser.add_argument("--only", nargs="+", choices=PAPERS, default=PAPERS)
    options = parser.parse_args(arguments)
    quick = ["--quick"] if options.quick else []
    for name in options.only:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, str(HERE / f"{name}.py"), *quick], check=True)
    if not options.quick:
        subprocess.run([sys.executable, str(HERE / "papers.py")], check=True)


if __name__ == "__main__":
    main()
