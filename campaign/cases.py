"""Generated inputs: every estimator with rows, targets and parameters that nobody thought of."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from inputs import ESTIMATORS, Case, cases
from properties import check

NAMES = ESTIMATORS
CASES = 20


def run_batch(
    name: str, seed: int, number: int, *, shown: bool = False, n_cases: int = CASES
) -> tuple[Counter[str], str]:
    """Run the cases of a batch, which is one estimator or tool with 20 cases drawn by hypothesis.

    Parameters
    ----------
    name : str
        The estimator.
    seed, number : int
        The campaign's seed and the number of the batch: the same cases for the same two.
    shown : bool, default=False
        Look for the smallest case that fails, and raise what it raises.
    n_cases : int, default=20
        How many.

    Returns
    -------
    ended : Counter
        How many cases ended in a "result", how many in a "sentence".
    failure : str
        What failed, if anything did.
    """
    ended: Counter[str] = Counter()

    @seeded(seed * 1_000_003 + number)
    @settings(
        max_examples=n_cases,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shown else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(name))
    def attack(case: Case) -> None:
        ended[check(case)] += 1

    try:
        attack()
    except Exception as error:
        if shown:
            raise
        return ended, f"{type(error).__name__}: {error}".splitlines()[0]
    return ended, ""
