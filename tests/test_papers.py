"""The pages of the papers: made from the results that are there, and every miss has a cause."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def experiment(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    return importlib.import_module


@pytest.mark.parametrize("name", ["two-stage", "drsvm", "pca-ls", "nsdr", "nmf-alpha"])
def test_a_page_is_what_make_papers_makes(experiment, tmp_path, name):
    papers = experiment("papers")
    text = papers.write_page(name, tmp_path).read_text()
    assert text == (ROOT / "docs" / "papers" / f"{name}.md").read_text(), "run: make papers"
    assert papers.NO_CAUSE not in text
    assert f"docs/papers/{name}.md" in (ROOT / "README.md").read_text()


def test_marks(experiment):
    """One spread is the bound, on the side that counts; draws are counted on that side, too."""
    cells = experiment("papers")
    cell = cells.Cell("Table 1", "a", "b", "c", 10.0, None, (8.0, 12.0))  # mean 10, spread 2
    assert [cell._replace(published=p).mark for p in (12.0, 12.1, 8.0, 7.9)] == [
        "reached",
        "missed",
        "reached",
        "better",
    ]
    error = cell._replace(higher_is_better=False)
    assert [error._replace(published=p).mark for p in (7.9, 12.1)] == ["missed", "better"]
    assert (cell._replace(published=11.0).n_as_good, error._replace(published=7.0).n_as_good) == (1, 0)
    assert cell._replace(published=99.0, same_data=False).mark == "other data"
    causes = [{"where": "Table 1, a, x*", "why": "no"}, {"where": "*, b, c", "why": "yes"}]
    assert cells.cause_of(cell, causes) == "yes"
    assert cells.cause_of(cell, causes[:1]) == ""


def test_published_numbers_are_read_by_place(experiment):
    common = experiment("result_rows")
    assert common.published("pca-ls", "Table 3")["BCI", "PCA-LS", "labels=50"] == (62.29, None)
    assert common.published("nsdr", "Table 2")["sonar", "NSDR", ""] == (0.106, 0.041)
