"""The experiments run from end to end on small generated data, and resume."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from labelfold.app.registry._methods import METHODS as REGISTRY

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@pytest.fixture
def experiment(monkeypatch):
    """Import an experiment by name, without real data."""
    monkeypatch.syspath_prepend(EXPERIMENTS)
    monkeypatch.delenv("LABELFOLD_DATA", raising=False)
    return importlib.import_module


@pytest.mark.slow
def test_two_stage(experiment, tmp_path):
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

    # Some of the parts make a page too.
    some = two_stage.Results(tmp_path / "some.csv")
    for row in rows:
        if row["part"] in ("Figure 1", "Figure 2"):
            some.add(**row)
    report = experiment("common").Report(tmp_path / "some.md")
    two_stage.write_report(report, some)
    assert "## Table 2: the same directions" not in report.parts

    # A run that resumes makes the row that was lost, and nothing else.
    quick = ["--quick", "--output", str(tmp_path)]
    assert lost_and_made_again(tmp_path / "two_stage.csv", 5, lambda: two_stage.main(quick))


def test_a_packed_file_has_the_same_rows_and_takes_more(experiment, tmp_path):
    rows = experiment("result_rows")
    results = rows.Results(tmp_path / "some.csv")
    for seed, ours in enumerate((1.5, 2.5, np.nan)):
        for ridge in (0.1, 1.0):
            key = {"part": "A", "dataset": "wine", "source": "real", "method": "lda", "seed": seed}
            results.add(**key, parameters=rows.words(ridge=ridge), ours=ours, relative="same")
    results.add(**key | {"seed": 7}, parameters="other=1", ours=3.0, seconds=0.25)
    for seed in (8, 9):
        results.add(**key | {"seed": seed}, parameters="what=failed", ours=f"no file; {seed}")
    before = sorted(map(str, results.rows))
    results.pack()
    lines = results.path.read_text().splitlines()
    assert lines[1] == "A,wine,real,lda,ridge=0.1,0;1;2,,1.5;2.5;nan,same,,1"
    assert len(lines) == 1 + 3 + 2  # the fields; two settings of three seeds, one of one; what has semicolons
    again = rows.Results(results.path)
    assert sorted(map(str, again.rows)) == before
    assert again.has(**key, parameters="ridge=1")
    assert not again.has(**key | {"seed": 3}, parameters="ridge=1")
    again.add(**key | {"seed": 3}, parameters="ridge=1", ours=4.0)
    assert [row["ours"] for row in rows.Results(results.path).select(ridge=1.0)] == ["1.5", "2.5", "nan", "4"]
    assert again.made_with() == [rows.versions()]


def test_distance_sees_a_difference(experiment):
    two_stage = experiment("two_stage_methods")
    rng = np.random.default_rng(0)
    W, W0 = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
    P, P0 = W @ W.T, W0 @ W0.T
    assert two_stage.distance(W, W0) == pytest.approx(
        (np.linalg.norm(P - P0, 2), np.linalg.norm(P0, 2)), rel=1e-12
    )
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert two_stage.distance(W @ rotation, W)[0] < 1e-13


@pytest.mark.parametrize("technique", ["LDA", "CCA", "OPLS", "HSL-Clique", "HSL-Star", "HSL-Zhou"])
def test_the_paper_s_solutions_agree(experiment, technique):
    """The Lanczos one and the one by LSQR that are timed, and that from singular values that Table 2 is held to."""
    two_stage, sparse_text = experiment("two_stage_methods"), experiment("data_sets").sparse_text
    X, Y = sparse_text(np.random.default_rng(0), 90, 60, 4, 12, labels=True)
    y = Y.argmax(axis=1) if technique == "LDA" else Y
    H = two_stage.targets(technique, y)
    W0 = two_stage.Spectrum(X.toarray()).directions(H, 0.5)
    for W in (two_stage.lanczos(X, H, 0.5), two_stage.lsqr(X, H, 0.5, tol=1e-12)[0]):
        ours, size = two_stage.distance(W, W0)
        assert ours <= 1e-8 * size


@pytest.mark.slow
def test_subspace(experiment, tmp_path):
    """Every method and figure on pieces of generated sets of each kind; cached computations are the estimators'."""
    subspace = experiment("subspace")
    quick = ["--quick", "--output", str(tmp_path), "--sets", "G241c", "Breast-cancer", "Text", "SecStr"]
    page = subspace.main(quick)
    results = subspace.Results(tmp_path / "subspace.csv")
    tables = results.select(part="Table 1") + results.select(part="Table 3")
    assert len(tables) == 4 * 7 * 2
    assert {row["source"] for row in results.rows} == {"generated"}
    for row in tables:
        assert 1 <= int(row["parameters"].split("tried=")[1].split()[0]) <= subspace.MOST
        assert 0 <= float(row["ours"]) <= 100
    checks = results.select(part="Check")
    assert len(checks) == 4 * 7
    # where a row lies on the boundary but for round-off, it may fall to either side
    assert min(float(row["ours"]) for row in checks) >= 98
    assert len(results.select(part="Figure 3")) == 3 * 2 * 2
    assert len(results.select(part="Figure 4")) == 3 * 2 * 2
    assert len(results.select(part="Figure 1")) == len(results.select(part="Figure 2")) == 2
    # PCA-LS on each set and KPCA-LS on two, two draws; one set, two draws and weights, 42 rules
    assert len([row for row in results.rows if row["part"].endswith("library's choice")]) == (4 + 2) * 2
    assert len(results.select(part="Choice")) == 2 * 2 * (3 * 3 * 2 * 2 + 6)
    assert len(results.select(part="Weight")) == 2 * (4 + 4 + 4)
    # LapRLS on three sets, with a kernel on one of them, two draws
    assert len([row for row in results.rows if row["part"].endswith("whole grid")]) == (3 + 1) * 2
    assert len([row for row in results.rows if row["part"].endswith("hindsight")]) == (3 + 1) * 2 * 2
    assert "within one spread" in page.read_text()
    assert "Not run yet" not in page.read_text()

    # A run that resumes makes the row that was lost, and nothing else.
    assert lost_and_made_again(tmp_path / "subspace.csv", 4, lambda: subspace.main(quick))


@pytest.mark.slow
def test_subspace_causes(experiment, tmp_path):
    """Missed cells with other parameters: a rule's row is one of the configurations; draws are not the tables'."""
    subspace = experiment("subspace")
    sets = ["Waveform", "USPS", "G241d", "Text"]
    page = subspace.main(["--quick", "--output", str(tmp_path), "--parts", "causes", "--sets", *sets])
    results = subspace.Results(tmp_path / "subspace.csv")
    assert min(int(row["seed"]) for row in results.rows) == 100
    by_weight = results.select(dataset="Waveform", method="PCA-LS")
    assert len(by_weight) == 4 * 2 * 3
    for row in results.select(dataset="USPS", parameters="rule=cv5"):
        same = results.select(dataset="USPS", seed=row["seed"], parameters=row["relative"])
        assert [other["ours"] for other in same] == [row["ours"]]
    assert len(results.select(dataset="G241d", method="LLGC")) == 4 * 9 * 5 * 2
    for method in ("LapRLS", "KLapRLS"):
        assert len(results.select(dataset="Text", method=method)) == 4 * 90
    assert "best of 10 for each draw" in page.read_text()


def test_subspace_has_methods_by_the_names_of_the_registry(experiment, tmp_path):
    subspace, methods = experiment("subspace"), experiment("subspace_methods")
    assert set(methods.REGISTERED) <= set(REGISTRY)
    assert list(methods.REGISTERED.values()) == list(methods.METHODS)
    quick = ["--quick", "--output", str(tmp_path), "--sets", "BCI", "--parts", "tables"]
    subspace.main([*quick, "--methods", "pca-rls", "LLGC"])
    results = subspace.Results(tmp_path / "subspace.csv")
    assert {row["method"] for row in results.rows} == {"PCA+RLS", "LLGC"}


def test_subspace_design_is_balanced(experiment):
    methods = experiment("subspace_methods")
    levels = {"a": (1.0, 2.0, 3.0, 4.0, 5.0), "b": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), "c": (1.0, 2.0, 3.0)}
    design = methods.balanced(30, **levels)
    assert len({tuple(row.values()) for row in design}) == 30
    assert design == methods.balanced(30, **levels)
    for name, values in levels.items():
        assert sorted(row[name] for row in design) == sorted(values * (30 // len(values)))
    assert len(methods.balanced(30, a=(1.0, 2.0), b=(3.0, 4.0))) == 4


@pytest.mark.slow
def test_subspace_never_shows_a_method_the_labels_it_is_scored_on(experiment):
    """Other labels of rows that are asked for change nothing of what is said about them."""
    subspace, methods = experiment("subspace"), experiment("subspace_methods")
    plan = subspace.QUICK
    for name in ("BCI", "SecStr"):
        data = subspace.read(name, plan)
        tasks = subspace.tasks_of(data, subspace.draw(data, 30, 0), 0)[1:3]
        for method, run in methods.METHODS.items():
            before = {(config, i): values for config, i, values in run(data, tasks)}
            truth = data.y
            data.y = truth.copy()
            for i, task in enumerate(tasks):
                data.y = truth.copy()
                data.y[task.asked] *= -1
                for config, _, values in run(data, [task]):
                    np.testing.assert_allclose(values, before[config, i], atol=1e-6, err_msg=method)
            data.y = truth


def test_nsdr(experiment, tmp_path):
    nsdr = experiment("nsdr")
    page = nsdr.main(["--quick", "--output", str(tmp_path)])
    rows = nsdr.Results(tmp_path / "nsdr.csv").rows
    table = [row for row in rows if row["part"] == "Table 2"]
    assert len(table) == 2 * 6 * 2  # sets, methods, folds
    assert all(0 <= float(row["ours"]) <= 1 for row in table)
    assert len([row for row in rows if row["part"] == "Table 1"]) == len(table)
    assert {row["published"] for row in table if row["method"] == "LSDR, logistic"} == {""}
    # Labels separate the small sets, where nothing else does: that is what the two pictures are for.
    shown = {(row["part"], row["method"]): float(row["ours"]) for row in rows if row["parameters"] == "error"}
    assert shown["Figure 1", "LSDR"] == shown["Figure 2", "NSDR"] == 0.0
    assert shown["Figure 1", "unsupervised"] > 0
    assert shown["Figure 2", "LSDR"] > 0.2
    assert len([row for row in rows if row["part"] == "Table 2, the paper's parameters"]) == 2 * 4 * 2
    assert len([row for row in rows if row["part"] == "Figure 3"]) == 5 * 2
    assert len([row for row in rows if row["part"] == "Figure 4"]) == 2 * 2 + 5 * 4
    assert "Table 2" in page.read_text()

    # A run that resumes makes the row that was lost, and nothing else.
    path = tmp_path / "nsdr.csv"
    lines = path.read_text().splitlines(keepends=True)
    lost = next(i for i, line in enumerate(lines) if line.startswith("Table 2"))
    path.write_text("".join(lines[:lost] + lines[lost + 1 :]))
    nsdr.main(["--quick", "--output", str(tmp_path), "--parts", "table"])
    again = path.read_text().splitlines(keepends=True)
    assert [line for line in again if line.startswith("Table 2")][-1].split(",")[:6] == lines[lost].split(
        ","
    )[:6]
    assert len([line for line in again if line.startswith("Table 2")]) == len(table)


def test_nsdr_looks_at_no_test_label(experiment):
    """What is chosen, and what is predicted, stays the same whatever the labels of the test part are."""
    nsdr = experiment("nsdr")
    data = nsdr.read("sonar", 60)
    train, test = nsdr.folds(data, 3)[0]
    y = data.y.copy()
    y[test] = 1 - y[test]
    other = data._replace(y=y)
    for method in ("NSDR", "LSDR, squared", "PCA-SVMs"):
        assert nsdr.choose(method, data, train, 0, nsdr.QUICK) == nsdr.choose(
            method, other, train, 0, nsdr.QUICK
        )
        options = nsdr.candidates(method, data, 0, 4)[0]
        right, flipped = (nsdr.errors(method, d, train, test, options, 5) for d in (data, other))
        assert right == pytest.approx(1 - flipped)


@pytest.mark.slow
def test_nsdr_grid(experiment, tmp_path):
    nsdr_grid = experiment("nsdr_grid")
    quick = ["--quick", "--output", str(tmp_path)]
    text = nsdr_grid.main(quick).read_text()
    rows = nsdr_grid.Results(tmp_path / "nsdr_grid.csv").rows
    points = [row for row in rows if row["part"] == "Grid"]
    assert len(points) == 4 * 2 * 2  # points, sets, starts
    assert (
        len([row for row in rows if row["part"] == "Scaling"]) == 5 * 3 * 2 * 3
    )  # sets, scalings, kernels, folds
    assert "in hindsight, on test rows" in text
    for row in points:
        test = [float(each.split("/")[0]) for each in row["relative"].split()]
        assert np.mean(test) == pytest.approx(float(row["ours"]), abs=1e-5)
    path = tmp_path / "nsdr_grid.csv"
    lost = next(i for i, line in enumerate(path.read_text().splitlines()) if line.startswith("Grid,spect"))
    assert lost_and_made_again(path, lost, lambda: nsdr_grid.main(quick))


def test_nsdr_grid_is_drawn_evenly(experiment):
    nsdr_grid = experiment("nsdr_grid")
    points = nsdr_grid.drawn(500)
    assert len({tuple(point.values()) for point in points}) == 500
    for name, values in nsdr_grid.GRIDS["NSDR"].items():
        counts = np.array([sum(point[name] == value for point in points) for value in values])
        assert abs(counts / 500 - 1 / len(values)).max() < 0.02


def test_nsdr_grid_chooses_in_a_fold_without_its_test_labels(experiment, monkeypatch):
    nsdr_grid = experiment("nsdr_grid")
    data = nsdr_grid.read("sonar", 60)
    plan, options = nsdr_grid.QUICK, nsdr_grid.drawn(1)[0]
    folds = nsdr_grid.folds(data, plan.folds)
    monkeypatch.setattr(nsdr_grid, "folds", lambda *_: folds)
    y = data.y.copy()
    y[folds[0][1]] = 1 - y[folds[0][1]]
    right, flipped = (nsdr_grid.all_errors(d, options, "svd", plan) for d in (data, data._replace(y=y)))
    assert right[1][0] == flipped[1][0]
    assert right[0][0] == pytest.approx(1 - flipped[0][0])


@pytest.mark.slow
def test_nmf_alpha_tuned(experiment, tmp_path):
    tuned = experiment("nmf_alpha_tuned")
    quick = ["--quick", "--output", str(tmp_path)]
    text = tuned.main(quick).read_text()
    rows = tuned.Results(tmp_path / "nmf_alpha_tuned.csv").rows
    chosen = [row for row in rows if row["part"] == "Tuned"]
    run = [name for name in tuned.VARIANTS if name in tuned.QUICK.methods]
    # NMF and perceptrons once, other variants with two C of the directions, all with two lengths; the others once.
    assert len(chosen) == 2 * (2 + 2 * (len(run) - 1)) + len(tuned.OTHERS)
    for row in chosen:
        # What was chosen is the best on validation rows.
        tried = [
            float(other["ours"])
            for other in rows
            if other["part"] == "Path"
            and other["method"] == row["method"]
            and other["parameters"].startswith(row["parameters"])
        ]
        if tried:
            assert f"validation={max(tried):g} " in row["relative"]
    assert "beside Table 2" in text
    path = tmp_path / "nmf_alpha_tuned.csv"
    lines = path.read_text().splitlines()
    lost = next(i for i, line in enumerate(lines) if line.startswith("Tuned,news,generated,CNMF"))
    assert lost_and_made_again(path, lost, lambda: tuned.main(quick))


@pytest.mark.slow
def test_nmf_alpha(experiment, tmp_path, monkeypatch):
    nmf_alpha = experiment("nmf_alpha")
    for name in nmf_alpha.RANKS:  # one for all sets: loops are compiled for each number of components
        monkeypatch.setitem(nmf_alpha.RANKS, name, (8,))
    monkeypatch.setattr(nmf_alpha, "ITERATIONS", 30)
    page = nmf_alpha.main(["--quick", "--output", str(tmp_path)])
    rows = nmf_alpha.Results(tmp_path / "nmf_alpha.csv").rows
    scores = [row for row in rows if row["part"] == "Scores"]
    # 3 sets: 5 reductions, SVM and LDA at 3 shares of labels; TSVM at 2, since with all labels it is the SVM
    assert len(scores) == 3 * (5 * 3 + 2 * 3 + 2)
    assert {row["source"] for row in rows} == {"generated"}
    assert {row["published"] for row in scores if row["method"] not in ("NMF-alpha", "LDA")} == {""}
    # Of so few reports with so few labels a machine may find none; classes are always guessed right sometimes.
    assert all(0 <= float(row["ours"]) <= 100 for row in scores)
    assert all(float(row["ours"]) > 0 for row in scores if row["dataset"] != "aviation")
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
    rows = path.read_text().splitlines()
    lost = next(i for i, line in enumerate(rows) if line.startswith("Scores,news,generated,SSNMF"))
    quick = ["--quick", "--output", str(tmp_path), "--parts", "scores"]
    assert lost_and_made_again(path, lost, lambda: nmf_alpha.main(quick))


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


def lost_and_made_again(path, lost, run):
    """Take a row out of a CSV file, run again, and return whether that row, and nothing else, was made."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:lost] + lines[lost + 1 :]))
    run()
    again = path.read_text().splitlines(keepends=True)
    return (
        again[:-1] == lines[:lost] + lines[lost + 1 :]
        and again[-1].split(",")[:8] == lines[lost].split(",")[:8]
    )


@pytest.mark.slow
def test_delivered(experiment, tmp_path):
    delivered = experiment("delivered")
    quick = ["--quick", "--output", str(tmp_path)]
    text = delivered.main([*quick, "--sets", "autos_motorcycles", "--draws", "1"]).read_text()
    rows = delivered.Results(tmp_path / "delivered.csv").rows
    found = {row["method"]: row["ours"] for row in rows}
    assert 50 < float(found["accuracy"]) <= 100
    assert found["truth"] == found["accuracy"]
    assert 0 <= int(found["sure and right"]) <= int(found["sure"]) <= 56
    assert 0 < float(found["expected"]) <= 100
    assert {row["parameters"] for row in rows} == {"labels=24 limit=4"}
    assert "## Delivered (labels=24 limit=4)" in text
    assert "no difference below -2 points" in text

    text = delivered.main([*quick, "--parts", "baselines"]).read_text()
    path = tmp_path / "delivered_baselines.csv"
    assert len(delivered.Results(path).rows) == 2 * 2 * 8  # tables, draws, baselines
    assert "## Baselines (labels=24)" in text
    assert lost_and_made_again(path, 5, lambda: delivered.main([*quick, "--parts", "baselines"]))


def test_delivered_draws_labels_in_proportion(experiment):
    tables = experiment("delivered_baselines")
    y = np.repeat([0, 1, 2], [880, 115, 5])
    known = tables.draw(y, 60, "a", 0)
    assert np.bincount(y[known]).tolist() == [52, 7, 1]
    assert len(set(known)) == 60
    np.testing.assert_array_equal(known, tables.draw(y, 60, "a", 0))
    assert set(known) != set(tables.draw(y, 60, "a", 1))
    few = tables.draw(np.repeat(range(20), 30), 20, "b")  # no more labels than classes
    assert len(set(few // 30)) == 20


@pytest.mark.slow
def test_delivered_baselines_look_at_no_hidden_label(experiment):
    tables = experiment("delivered_baselines")
    for name in ("wine", "autos_motorcycles"):
        table = tables.read(name, 80)
        known = tables.draw(table.y, 24, name, 0)
        other = table._replace(y=np.zeros_like(table.y))
        other.y[known] = table.y[known]
        for baseline in tables.BASELINES:
            said = tables.predict(baseline, table, 80, known)
            np.testing.assert_array_equal(said, tables.predict(baseline, other, 80, known))


def test_delivered_reads_what_was_promised(experiment, tmp_path):
    delivered = experiment("delivered")
    path = tmp_path / "answer.json"
    printed = "LDA with 2 components keeps the classes apart best: 97.2% right on rows held out."
    assert delivered.read_promise(path, printed) == {
        "method": "LDA with 2 components",
        "metric": "accuracy",
        "expected": 97.2,
    }
    answer = {
        "method": "lda",
        "metric": "balanced accuracy",
        "expected": 0.5,
        "low": 0.25,
        "high": 0.75,
        "n_rows": 60,
    }
    path.write_text(json.dumps(answer))
    promise = {"method": "lda", "metric": "balanced accuracy", "expected": 50.0, "low": 25.0, "high": 75.0}
    assert delivered.read_promise(path, printed) == promise
    path.write_text(
        json.dumps({"method": "lda", "metric": "accuracy", "expected": None})
    )  # too few labels to say
    assert delivered.read_promise(path, printed) == {"method": "lda", "metric": "accuracy"}


def test_delivered_aims(experiment, tmp_path):
    """Two tables, three draws: the difference, its error, and each aim are computed by hand."""
    delivered = experiment("delivered")
    names = "delivered", "delivered_baselines"
    rows, baselines = (delivered.Results(tmp_path / f"{name}.csv") for name in names)
    for name, ours in {"wine": (90.0, 91.0, 92.0), "sonar": (70.0, 75.0, 80.0)}.items():
        for seed, right in enumerate(ours):
            key = {"dataset": name, "source": "real", "seed": seed, "parameters": "labels=60"}
            for method, value in {"extra trees": right + 3 - seed, "naive Bayes": 50.0}.items():
                baselines.add(part="Baseline", method=method, ours=value, seconds=1.0, **key)
            found = {"method": "lda", "metric": "accuracy", "expected": 80.0, "low": 72.0, "high": 90.5}
            found |= {"truth": right, "sure": 10, "sure and right": 9, "accuracy": right}
            for method, value in found.items():
                rows.add(part="Delivered", method=method, ours=value, seconds=2.0, **key)
    page = experiment("common").Report(tmp_path / "page.md")
    delivered.write_report(page, rows)
    text = "\n\n".join(page.parts)
    # differences -3, -2 and -1: mean -2, deviation 1
    assert "| wine | 3 | 91.0 | 93.0 | extra trees | −2.0 ± 0.6 | 80.0 | 91.0 | 1 of 3 |" in text
    assert "| difference at least minus one standard error on 8 of 10 tables | 0 of 2 | no |" in text
    assert "| no difference below -2 points | least −2.0 | yes |" in text
    assert "| the interval holds the truth in 9 of 10 runs | 3 of 6 | no |" in text
    assert "90.0% of 60 | yes |" in text
    # of 48 of 60, by Wilson's formula: 70.3 to 87.1
    assert delivered.wilson_width(0.8, 60) == pytest.approx(0.1682, abs=5e-5)
    assert "binomial interval | 1.10 | yes |" in text


def test_settings(experiment, tmp_path):
    settings = experiment("settings")
    quick = ["--quick", "--output", str(tmp_path)]
    text = settings.main(quick).read_text()
    registry, tried = (
        settings.Results(tmp_path / f"{name}.csv").rows for name in ("settings_registry", "settings")
    )
    # lda on both tables, naive Bayes on counts only; two draws, three settings
    assert len(registry) == 3 * 2
    assert len(tried) == 3 * 2 * 3
    assert not [row for row in (*registry, *tried) if row["published"]]
    assert "why not" in text
    assert lost_and_made_again(tmp_path / "settings.csv", 4, lambda: settings.main(quick))


def test_settings_have_a_grid_for_every_method_with_weights(experiment):
    grids = experiment("settings_grids")
    # it chooses by itself; of label columns; without weights; too slow
    without = {"labelfold", "cca", "hsl", "extra-trees", "random-forest", "umap"}
    classify = {name for name, method in REGISTRY.items() if method.why_not_task("classification") is None}
    assert classify - set(grids.GRIDS) <= without
    X = np.random.default_rng(0).random((60, 8))
    for name, grid in grids.GRIDS.items():
        found = grid.settings()
        setting = dict(found[-1])
        rows = grids.prepared(X, setting.pop("scale"), REGISTRY[name].nonnegative)
        grid.make(rows, **setting)
        assert 1 < len(found) <= grids.MOST
        assert len({tuple(setting.values()) for setting in found}) == len(found)


def test_settings_stop_what_is_late(experiment, tmp_path):
    settings = experiment("settings")
    table = settings.read("wine", 80)
    plan = settings.Plan(draws=2, limit=0.2)
    results = settings.Results(tmp_path / "settings.csv")

    def endless():
        while True:
            pass

    for seed in range(2):
        spent = settings.cell(results, plan.limit, table, "lda", "slow", seed, endless, plan)
    assert spent == 0.0  # once is enough
    assert [row["published"] for row in results.rows] == ["late", "late"]
    assert [row["ours"] for row in results.rows] == ["nan", "nan"]


@pytest.mark.slow
def test_label_fold(experiment, tmp_path, monkeypatch):
    label_fold = experiment("label_fold")
    monkeypatch.setattr(label_fold, "OPEN", ("wine", "Text"))
    monkeypatch.setattr(label_fold, "SEVERAL", ("scene",))
    monkeypatch.setattr(label_fold, "BOOK", ("BCI",))
    parts = ["--parts", "book", "open", "parts", "new", "--methods", "LabelFold", "1-NN"]
    page = label_fold.main(["--quick", "--output", str(tmp_path), *parts])
    path = tmp_path / "label_fold.csv"
    rows = label_fold.Results(path).rows
    assert {row["source"] for row in rows} == {"generated"}
    assert all(np.isfinite(float(row["ours"])) for row in rows)
    # Two sets with classes, 2 sizes, 2 draws: LabelFold, its leave-one-out score, the linear view, 1-NN.
    classes = [row for row in rows if row["part"] == "open" and row["dataset"] != "scene"]
    assert len(classes) == 2 * 2 * 2 * 4
    assert {row["method"] for row in rows if row["part"] == "new"} == {"seen in training", "new rows"}
    text = page.read_text()
    for said in ("less the best peer in hindsight", "coverage", "without graph", "New rows"):
        assert said in text

    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3] + lines[4:]))
    label_fold.main(["--quick", "--output", str(tmp_path), *parts])
    again = path.read_text().splitlines(keepends=True)
    assert again[: len(lines) - 1] == lines[:3] + lines[4:]
    assert {line.split(",")[3] for line in again[len(lines) - 1 :]} <= {"LabelFold", "leave-one-out"}


def test_honesty(experiment, tmp_path):
    honesty = experiment("honesty")
    quick = ["--quick", "--settings", "twice", "visits", "filled", "--output", str(tmp_path)]
    text = honesty.main(quick).read_text()
    path = tmp_path / "honesty.csv"
    rows = honesty.Results(path).rows
    assert len(rows) == 3 * (4 + 3)  # settings; share, interval and truth; sentences
    said = {(row["dataset"], row["method"]): float(row["ours"]) for row in rows}
    assert said["twice", "together"] == said["visits", "together"] == said["filled", "left out"] == 1
    assert "| twice | 40 | 1 |" in text
    assert lost_and_made_again(path, 5, lambda: honesty.main(quick))


def test_pcals_starts(experiment, tmp_path):
    pcals_starts = experiment("pcals_starts")
    quick = ["--quick", "--output", str(tmp_path)]
    text = pcals_starts.main(quick).read_text()
    path = tmp_path / "pcals_starts.csv"
    rows = pcals_starts.Results(path).rows
    assert len(rows) == len(pcals_starts.FORMS) * len(pcals_starts.KINDS) * pcals_starts.DIRECTIONS
    assert min(float(row["relative"]) for row in rows) >= -pcals_starts.EQUAL
    assert "| all | 36 | 72 | 72 | 0 |" in text
    assert lost_and_made_again(path, 5, lambda: pcals_starts.main(quick))


def test_regression(experiment, tmp_path):
    regression = experiment("regression")
    quick = ["--quick", "--output", str(tmp_path)]
    text = regression.main(quick).read_text()
    path = tmp_path / "regression.csv"
    assert len(regression.Results(path).rows) == 2 * (4 + 3)  # sets, methods and promises
    assert "| diabetes | 20 | 1 |" in text
    assert "of 2 cases" in text
    assert lost_and_made_again(path, 5, lambda: regression.main(quick))


@pytest.mark.slow
def test_labelling(experiment, tmp_path):
    labelling = experiment("labelling")
    quick = ["--quick", "--output", str(tmp_path)]
    text = labelling.main(quick).read_text()
    path = tmp_path / "labelling.csv"
    results = labelling.Results(path)
    # final accuracy, labels needed, accuracies, random rows, doubts, and the example
    assert len(results.rows) == 1 + 3 + 3 * 2 + 12 // 4 + 3 + 3
    assert {row["source"] for row in results.rows if row["part"] != "Example"} == {"generated"}
    for said in (
        "The sets were generated",
        "| waveform |",
        "fewer labels than random",
        "Each label is one key",
    ):
        assert said in text
    assert lost_and_made_again(
        path, len(results.rows), lambda: labelling.main([*quick, "--parts", "example"])
    )
    # a run whose accuracy is 90% all the time, and nine of ten random rows right
    for i in range(40):
        row = {
            "part": "Random row",
            "dataset": "made up",
            "source": "generated",
            "method": "mixed",
            "seed": 0,
        }
        results.add(**row, parameters=f"rows=60 labels={4 * i + 1}", ours=90.0, relative=int(i % 10 != 5))
    page = experiment("common").Report(path.with_suffix(".md"))
    labelling.write_report(page, results)
    text = "\n\n".join(page.parts)
    assert "| accuracy, 21 or more random rows | 20 | 100% |" in text
    assert "| forecast, 5 to 7 random rows | 3 |" in text


def test_a_goal_is_reached_where_it_is_held(experiment):
    labelling = experiment("labelling")
    right = [0.1, 0.95, 0.2, *[0.95] * 5, 0.3]
    steps = [labelling.Step(None, value) for value in right]
    assert labelling.reached(steps, 90) == 4
    assert labelling.reached(steps[:-2], 90) is None


def test_left_out_values_are_those_of_fits_without_the_row(experiment):
    choice = experiment("subspace_choice")
    rng = np.random.default_rng(0)
    Z, y = rng.standard_normal((12, 4)), np.sign(rng.standard_normal(12))
    found = choice.left_out(Z, y)
    for i in range(12):
        rest = np.arange(12) != i
        r, value = y[rest] - y[rest].mean(), y[rest].mean()
        for t in range(4):
            z = Z[rest, t]
            alpha = z @ r / (z @ z)
            r, value = r - alpha * z, value + alpha * Z[i, t]
            assert found[i, t] == pytest.approx(value, abs=1e-12)
