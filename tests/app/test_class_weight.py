"""Weights of classes, from the command line and from Python to every method that takes them."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import recall_score

from labelfold import compare, load
from labelfold.app.commands import main
from labelfold.app.compare import read_data
from labelfold.app.compare._runner import make_plan
from labelfold.app.registry import METHODS, ranked_methods
from labelfold.app.registry._class_weights import without_absent

METHOD = "logistic"


def rare(n=300, several=False, seed=0):
    """Return rows of two overlapping classes, one of them rare, and of 300 further rows as a test."""
    rng = np.random.default_rng(seed)
    codes = (rng.random(2 * n) < 0.08).astype(int)
    X = rng.normal(size=(2 * n, 3)) + 1.5 * codes[:, None] * np.array([1, 0, 0])
    return X, np.array(["usual", "rare"])[codes]


def written(path, X, y):
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=y).to_csv(path, index=False)
    return str(path)


def run(capsys, *words, status=0):
    code = main(list(map(str, words)))
    out, err = capsys.readouterr()
    assert code == status, err
    return out + err


def recall(model, X, y):
    return recall_score(y[300:], model.predict(X[300:]), pos_label="rare")


@pytest.mark.parametrize("weight", ["balanced", "rare=12"])
def test_fit_finds_more_of_a_rare_class(capsys, tmp_path, weight):
    X, y = rare()
    table = written(tmp_path / "t.csv", X[:300], y[:300])
    models = {}
    for name, words in {"plain": [], "weighted": ["--class-weight", weight]}.items():
        file = tmp_path / f"{name}.skops"
        told = run(capsys, "fit", table, "--target", "kind", "--method", METHOD, "-o", file, *words)
        assert ("Classes have weights" in told) == bool(words)
        models[name] = load(file)
    assert recall(models["weighted"], X, y) > recall(models["plain"], X, y) + 0.3


def test_compare_weighs_every_method_and_refuses_those_that_cannot(capsys, tmp_path):
    X, y = rare()
    table = written(tmp_path / "t.csv", X[:300], y[:300])
    words = ("compare", table, "--target", "kind", "-r", "1", "-o", tmp_path / "out", "--save")
    told = run(capsys, *words, "-m", "svm,logistic", "--class-weight", "rare=12, usual=1")
    assert "Classes have weights: rare 12, usual 1." in told
    assert json.loads((tmp_path / "out" / "answer.json").read_text())["class_weight"] == {
        "rare": 12,
        "usual": 1,
    }
    assert "Classes have weights: rare 12, usual 1." in (tmp_path / "out" / "report.html").read_text()
    assert recall(load(tmp_path / "out" / "model.skops"), X, y) > 0.5
    words = (*words, "-m", "sklearn-lda", "--class-weight", "balanced")
    assert "'sklearn-lda' does not suit: it takes no weights of classes" in run(capsys, *words, status=2)
    found = compare(
        X[:300], y[:300], ["svm", "extra-trees"], repeats=1, progress=False, class_weight="balanced"
    )
    assert recall(found.refit("svm"), X, y) > 0.5
    assert found.table["error"].isna().all()


def test_methods_without_weights_are_left_out():
    X, y = rare()
    unweighted = [method for method in ranked_methods() if method.available and method.why_not_weighted()]
    assert {"sklearn-lda", "naive-bayes"} <= {method.name for method in unweighted}
    plan = make_plan(read_data(X[:300], y[:300]), None, None, None, 0.3, weighted=True)
    assert {method.title for method in unweighted} <= plan.left_out.keys()
    assert {run.method.name for run in plan.runs} >= {"svm", "logistic", "extra-trees"}


def test_a_resumed_comparison_is_of_the_same_weights(tmp_path):
    X, y = rare()
    settings = {"methods": ["svm"], "repeats": 1, "progress": False, "folder": tmp_path}
    first = compare(X[:300], y[:300], **settings)
    for weight, resumed in ((None, 1), ("balanced", 0), ("balanced", 1), ({"rare": 2}, 0)):
        found = compare(X[:300], y[:300], class_weight=weight, **settings)
        assert found.settings["resumed"] == resumed
    assert first.settings["class_weight"] is None


def test_several_labels_have_weights_by_their_names():
    X, _ = rare()
    rng = np.random.default_rng(1)
    Y = pd.DataFrame({"one": rng.random(300) < 0.5, "two": X[:300, 0] + rng.normal(size=300) > 2.3}).astype(
        int
    )
    caught = {}
    for weight in (None, {"two": 20}, "balanced"):
        found = compare(X[:300], Y, ["svm"], repeats=1, progress=False, class_weight=weight)
        caught[str(weight)] = recall_score(Y["two"], found.refit().predict(X[:300])[:, 1])
    assert caught["None"] < min(caught["{'two': 20}"], caught["balanced"]) - 0.2
    METHODS["extra-trees"].make(X=X, class_weight={0: 1.0, 1: 20.0}).fit(X[:300], Y.to_numpy())


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ({"odd": 2}, "There is no class 'odd' to weigh; there are rare, usual."),
        ({"rare": 0}, "The weight of the class 'rare' is a number above 0, not 0."),
        ("even", "class_weight is \"balanced\" or a dict of classes and weights, not 'even'."),
    ],
)
def test_weights_that_are_refused(weight, said):
    X, y = rare()
    with pytest.raises(ValueError, match=said.replace("(", "\\(")):
        compare(X, y, class_weight=weight)


def test_numbers_have_no_weights(capsys, tmp_path):
    X, _ = rare()
    with pytest.raises(ValueError, match="Weights of classes were given, and the target holds numbers"):
        compare(X, X[:, 0], class_weight="balanced")
    table = written(tmp_path / "t.csv", *rare())
    for word in ("rare", "rare=x", "=", "rare=1,usual"):
        words = ("fit", table, "--target", "kind", "-o", tmp_path / "m.skops", "--class-weight", word)
        assert "--class-weight is balanced, or NAME=WEIGHT" in run(capsys, *words, status=2)


def test_weights_of_classes_that_a_fold_lacks_are_left_out():
    model = METHODS["logistic"].make(X=np.eye(3), class_weight={0: 1.0, 1: 5.0, 2: 2.0})
    names = [name for name in model.get_params() if name.endswith("class_weight")]
    assert names
    without_absent(model, np.array([0, 1, -1]))
    assert all(model.get_params()[name] == {0: 1.0, 1: 5.0} for name in names)
