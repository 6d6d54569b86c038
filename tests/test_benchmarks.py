"""The benchmark of NMF runs: its parts on small data, each with the figures it is there for."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
pytestmark = [
    pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the repository's benchmarks"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:n_components:UserWarning"),
]


@pytest.fixture
def nmf(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    module = importlib.import_module("nmf")
    monkeypatch.setattr(module, "K", 4)
    yield module
    for name in (set(sys.modules) - before) & {"nmf", "_common"}:
        sys.modules.pop(name)


@pytest.mark.slow
def test_nmf(nmf, capsys):
    X, y = nmf.counted_documents(200, 90, 20)
    assert X.shape == (200, 90)
    assert X.min() >= 0
    assert len(y) == 200
    for part in (
        lambda: nmf.iteration(X, 1),
        lambda: nmf.same_loss(X, 3),
    ):
        part()
        said = capsys.readouterr().out
        assert "nan" not in said
        assert "times" in said or "of the time" in said
