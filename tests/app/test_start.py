"""What a new process imports: help and mistyped commands no array library, a fit no compiler of loops."""

import json
import subprocess
import sys

import pytest

# What takes long to import, and what only some commands need.
HEAVY = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "numba", "rich", "skops", "plotly")


def imported_by(code):
    """Return what a new process that runs some code prints, and the heavy packages that it imports."""
    code += (
        f"\nimport json, sys; print('\\n' + json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *said, last = done.stdout.splitlines()
    return "\n".join(said) + done.stderr, json.loads(last)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--help"], "Fold wide data"),
        ([], "Fold wide data"),
        (["--version"], "labelfold "),
        (["compaare"], "Did you mean 'compare'?"),
        (["compare", "--help"], "Find the best method"),
        (["fit", "a.csv", "--traget", "y"], "--target"),
        (["predict", "model", "a.csv", "--otput", "b.csv"], "--output"),
        (["fit", "a.csv", "--seed", "one", "-o", "m"], "--seed"),
        (["label", "a.csv", "--who"], "--who"),
        (["datasets", "--labels", "x"], "--labels"),
        (["inspect"], "inspect --help"),
    ],
)
def test_help_and_mistakes_import_no_array_library(words, told):
    said, heavy = imported_by(f"from labelfold.app.commands import main; main({words!r})")
    assert told in said
    assert heavy == []


def test_a_package_is_imported_when_it_is_used():
    code = "from labelfold.app.io import pd, Refusal, find; import sys; print('pandas' in sys.modules); pd.DataFrame"
    said, heavy = imported_by(code)
    assert said.startswith("False")
    assert "pandas" in heavy


@pytest.mark.parametrize("columns", [8, 150], ids=["table", "wide"])
def test_a_fit_of_dense_rows_imports_no_compiler(columns):
    code = (
        "import numpy as np; from labelfold import LabelFold; X = np.random.default_rng(0).normal(size=(60, "
        f"{columns})); LabelFold().fit(X, np.arange(60) % 3 - 1).predict(X[:1])"
    )
    _, heavy = imported_by(code)
    assert "sklearn" in heavy
    assert "numba" not in heavy
