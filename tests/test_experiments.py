"""The experiments run from end to end on small generated data, and resume."""

import importlib
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@pytest.fixture
def experiment(monkeypatch):
    """Import an experiment by name, without real data."""
    monkeypatch.syspath_prepend(EXPERIMENTS)
    monkeypatch.delenv("LABELFOLD_DATA", raising=False)
    return importlib.import_module


def test_two_stage(experiment, tmp_path, monkeypatch):
    two_stage = experiment("two_stage")
    page = two_stage.main(["--quick", "--output", str(tmp_path)])
    rows = two_stage.Results(tmp_path / "two_stage.csv").rows
    table = [row for row in rows if row["part"] == "Table 2"]
    # 7 sets for LDA, 4 sets for 5 others; 2 ridges; against the SVD and against the library's direct solver
    assert len(table) == (7 + 4 * 5) * 2 * 2
    assert max(float(row["relative"]) for row in table) <= 1e-8
    accuracy = [row for row in rows if row["part"] in ("Figure 1", "Figure 2") and row["relative"]]
    assert len(accuracy) == 1 * 5 * 2 + 2 * 1 * 2
    assert max(float(row["relative"]) for row in accuracy) < 1e-3
    assert {row["source"] for row in rows} == {"generated"}
    assert "0 above the bound" in page.read_text()

    # A run that resumes makes the row that was lost, and nothing else.
    path = tmp_path / "two_stage.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:5] + lines[6:]))
    monkeypatch.setattr(two_stage, "write_report", lambda *_: None)
    two_stage.main(["--quick", "--output", str(tmp_path)])
    again = path.read_text().splitlines(keepends=True)
    assert again[:-1] == lines[:5] + lines[6:]
    assert again[-1].split(",")[:6] == lines[5].split(",")[:6]


def test_distance_sees_a_difference(experiment):
    two_stage = experiment("two_stage_parts.solutions")
    rng = np.random.default_rng(0)
    W, W0 = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
    P, P0 = W @ W.T, W0 @ W0.T
    assert two_stage.distance(W, W0) == pytest.approx(
        (np.linalg.norm(P - P0, 2), np.linalg.norm(P0, 2)), rel=1e-12
    )
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert two_stage.distance(W @ rotation, W)[0] < 1e-13


@pytest.mark.parametrize("technique", ["LDA", "CCA", "OPLS", "HSL-Clique", "HSL-Star", "HSL-Zhou"])
def test_both_direct_solutions_agree(experiment, technique):
    """The Lanczos one that is timed, and the one from singular values that Table 2 is held to."""
    two_stage, sparse_text = experiment("two_stage_parts.solutions"), experiment("common").sparse_text
    X, Y = sparse_text(np.random.default_rng(0), 90, 60, 4, 12, labels=True)
    y = Y.argmax(axis=1) if technique == "LDA" else Y
    H = two_stage.targets(technique, y)
    W0 = two_stage.Spectrum(X.toarray()).directions(H, 0.5)
    ours, size = two_stage.distance(two_stage.lanczos(X, H, 0.5), W0)
    assert ours <= 1e-8 * size
