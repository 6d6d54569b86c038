"""Check with Pyright that the types of all public names are known: python tests/public_types.py PYRIGHT.

A type is unknown where an annotation is missing. It may be unknown for one reason only: scikit-learn has no types, so
a class is partially unknown if it has a base class from there, and so is whatever takes or returns such a class.
`make types` runs this script.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "typing_cases.py"


def of_scikit_learn(name: str) -> bool:
    """Tell whether a class has a base class from scikit-learn."""
    module, _, called = name.rpartition(".")
    return any(
        base.__module__.startswith("sklearn.") for base in getattr(import_module(module), called).__mro__
    )


def excused(name: str, message: str) -> bool:
    """Tell whether all that is unknown comes from a base class of scikit-learn."""
    if message.endswith(("base class unknown", "metaclass unknown")):
        return of_scikit_learn(name)
    return "partially unknown" in message and "Unknown" not in message


def problems(found: dict[str, Any]) -> list[str]:
    """Return what is wrong in Pyright's answer, a line for each."""
    return [
        f"{symbol['name']}: {told['message']}"
        for symbol in found["typeCompleteness"]["symbols"]
        for told in symbol["diagnostics"]
        if symbol["isTypeAmbiguous"]
        or not (symbol["isTypeKnown"] or excused(symbol["name"], told["message"]))
    ]


def main(pyright: str) -> int:
    """Print what is wrong, and return the exit status."""
    own = [pyright, "--pythonpath", sys.executable]
    public = [*own, "--verifytypes", "labelfold", "--ignoreexternal", "--outputjson"]
    wrong = problems(json.loads(subprocess.run(public, stdout=subprocess.PIPE, check=False).stdout))
    print("\n".join(wrong) or "Pyright: the types of all public names are known.")
    return bool(wrong) or subprocess.run([*own, str(CASES)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
