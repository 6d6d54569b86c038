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
    assert max(float(row["relative"]) for row in table) <= two_stage.BOUND
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
    two_stage = experiment("two_stage")
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
    two_stage = experiment("two_stage")
    X, Y = two_stage.sparse_text(np.random.default_rng(0), 90, 60, 4, 12, labels=True)
    y = Y.argmax(axis=1) if technique == "LDA" else Y
    H = two_stage.targets(technique, y)
    W0 = two_stage.Spectrum(X.toarray()).directions(H, 0.5)
    ours, size = two_stage.distance(two_stage.lanczos(X, H, 0.5), W0)
    assert ours <= 1e-8 * size


def test_nmf_alpha(experiment, tmp_path, monkeypatch):
    nmf_alpha = experiment("nmf_alpha")
    page = nmf_alpha.main(["--quick", "--output", str(tmp_path)])
    rows = nmf_alpha.Results(tmp_path / "nmf_alpha.csv").rows
    scores = [row for row in rows if row["part"] == "Scores"]
    # 3 sets: 5 reductions, SVM and LDA at 3 shares of labels; TSVM at 2, since with all labels it is the SVM
    assert len(scores) == 3 * (5 * 3 + 2 * 3 + 2)
    assert {row["source"] for row in rows} == {"generated"}
    assert {row["published"] for row in scores if row["method"] not in ("NMF-alpha", "LDA")} == {""}
    assert all(0 < float(row["ours"]) <= 100 for row in scores)
    # Labels of all rows are worth something: more than a guess between two equal classes.
    whole = [row for row in scores if row["dataset"] == "mnist" and row["parameters"] == "labels=100 r=0"]
    assert min(float(row["ours"]) for row in whole) > 60
    tuning = [row for row in rows if row["part"] == "Tuning"]
    # 3 sets, 2 values of the one trade-off that each of 3 methods has at 3 shares of labels, and TSVM at 2
    assert len(tuning) == 3 * 2 * (3 * 3 + 2)
    images = [row for row in rows if row["part"] == "Figure 2"]
    assert len(images) == 3
    text = page.read_text()
    assert "## Table 2" in text
    assert "(93.3)" in text

    # A run that resumes makes the row that was lost, and nothing else.
    path = tmp_path / "nmf_alpha.csv"
    lines = path.read_text().splitlines(keepends=True)
    lost = next(i for i, line in enumerate(lines) if line.startswith("Scores,news,generated,SSNMF"))
    path.write_text("".join(lines[:lost] + lines[lost + 1 :]))
    monkeypatch.setattr(nmf_alpha, "write_report", lambda *_: None)
    nmf_alpha.main(["--quick", "--output", str(tmp_path), "--parts", "scores"])
    again = path.read_text().splitlines(keepends=True)
    assert again[:-1] == lines[:lost] + lines[lost + 1 :]
    assert again[-1].split(",")[:8] == lines[lost].split(",")[:8]


def test_nmf_alpha_splits_keep_rows_apart(experiment):
    nmf_alpha = experiment("nmf_alpha")
    for name in nmf_alpha.LABELS:
        task, cut = nmf_alpha.read(name, 400), nmf_alpha.split(name, 400, 0)
        assert not set(cut.train) & set(cut.validation)
        assert len(cut.train) + len(cut.validation) == len(task.y)
        few = nmf_alpha.LABELS[name][0]
        y = nmf_alpha.hidden(task, cut, few)
        known = ~np.isnan(y) if y.ndim == 1 else ~np.isnan(y[:, 0])
        assert known.sum() == cut.n_labelled(few)
        assert known[: cut.n_labelled(few)].all()
        np.testing.assert_array_equal(y[known], task.y[cut.train][known])
