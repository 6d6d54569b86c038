"""AnnData files: sparse X, an obs column as target, genes as features, and copies with what the model says."""

import runpy
import subprocess
import sys
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from test_formats import refused, run

from labelfold.app.io import read_model, read_table

pytestmark = pytest.mark.usefixtures("quick_comparisons")
TYPES = np.array(["B cell", "T cell", "NK"])


@pytest.fixture(scope="module")
def cells():
    """240 cells by 120 genes: counts of three types, a fifth of them annotated."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 240)
    rates = np.exp(rng.normal(-0.5, 1.0, (3, 120)))
    X = rng.poisson(rates[kind] * rng.gamma(5, 0.2, (240, 1)))
    told = np.where(rng.random(240) < 0.2, TYPES[kind], None)
    obs = pd.DataFrame(
        {"cell_type": pd.Categorical(told), "batch": rng.choice(["a", "b"], 240), "depth": X.sum(axis=1)},
        index=[f"AAAC-{i}" for i in range(240)],
    )
    genes = pd.DataFrame({"length": 1}, index=[f"GENE{j}" for j in range(120)])
    made = anndata.AnnData(sp.csr_matrix(X.astype(np.float32)), obs=obs, var=genes)
    made.obsm["X_pca"] = rng.normal(size=(240, 2))
    made.layers["counts"] = made.X.copy()
    made.uns["by"] = "hand"
    return made, TYPES[kind]


@pytest.fixture
def path(cells, tmp_path):
    cells[0].write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


def test_rows_are_cells_and_columns_are_genes(cells, path):
    table = read_table(path, target="cell_type")
    assert sp.issparse(table.raw)
    assert table.raw.dtype == np.float32
    assert table.feature_names == list(cells[0].var_names)
    assert table.ids.iloc[:, 0].tolist() == list(cells[0].obs_names)
    assert [v is None for v in table.y] == cells[0].obs["cell_type"].isna().tolist()
    np.testing.assert_array_equal(table.raw.toarray(), cells[0].X.toarray())
    some = read_table(path, target="cell_type", features=["GENE7", "GENE3"], id_columns=["batch"])
    np.testing.assert_array_equal(some.raw.toarray(), cells[0].X[:, [7, 3]].toarray())
    assert some.ids["batch"].tolist() == cells[0].obs["batch"].tolist()
    assert "GENE3" not in read_table(path, drop=["GENE3"]).feature_names
    assert read_table(path, target="depth").y.tolist() == cells[0].obs["depth"].tolist()


def test_from_a_file_to_a_copy_with_embedding_and_predictions(cells, path, tmp_path, capsys):
    out, _ = run(capsys, "fit", path, "-t", "cell_type", "-o", tmp_path / "m")
    assert "240 rows × 120 columns" in out
    notes = read_model(tmp_path / "m").meta
    assert notes["columns"] == list(cells[0].var_names)
    assert notes["top_features"][0][0][0].startswith("GENE")
    # new cells, dense, their genes in another order and one more
    new = cells[0][:, ::-1].copy()
    new.X = new.X.toarray()
    more = anndata.AnnData(np.ones((240, 1), dtype=np.float32), obs=new.obs, var=pd.DataFrame(index=["MORE"]))
    new = anndata.concat([new, more], axis=1, merge="first")
    new.write_h5ad(tmp_path / "new.h5ad")
    _, err = run(
        capsys, "transform", tmp_path / "m", tmp_path / "new.h5ad", "--predict", "-o", tmp_path / "a.h5ad"
    )
    assert err == "Note: ignored 'MORE', which the model does not use.\n"
    run(capsys, "predict", tmp_path / "m", path, "-o", tmp_path / "b.h5ad")
    run(capsys, "transform", tmp_path / "m", path, "-o", tmp_path / "e.csv", "--predict")
    flat = pd.read_csv(tmp_path / "e.csv")
    assert (flat["predicted"] == cells[1]).mean() > 0.9
    a, b = anndata.read_h5ad(tmp_path / "a.h5ad"), anndata.read_h5ad(tmp_path / "b.h5ad")
    assert (
        a.obs["labelfold_predicted"].tolist()
        == b.obs["labelfold_predicted"].tolist()
        == list(flat["predicted"])
    )
    assert a.obs["labelfold_predicted"].dtype == "category"
    np.testing.assert_allclose(a.obsm["X_labelfold"], flat.iloc[:, 1:-1], rtol=1e-4, atol=1e-5)
    assert b.obs["labelfold_confidence"].between(0, 1).all()
    # all else is as it was
    assert list(b.obs)[:3] == ["cell_type", "batch", "depth"]
    assert b.uns["by"] == "hand"
    np.testing.assert_array_equal(b.layers["counts"].toarray(), cells[0].X.toarray())
    assert list(anndata.read_h5ad(path).obs) == ["cell_type", "batch", "depth"]


def test_compare_leaves_an_annotated_copy(path, tmp_path, capsys):
    run(capsys, "compare", path, "-t", "cell_type", "-m", "lda", "-r", 1, "--save", "-o", tmp_path / "out")
    made = anndata.read_h5ad(tmp_path / "out" / "annotated.h5ad")
    assert made.obsm["X_labelfold"].shape == (240, 2)
    assert set(made.obs["labelfold_predicted"]) == set(TYPES)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "GENE" in page
    assert "a copy of the file with the embedding in obsm" in page
    assert "AAAC-7" in page


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_every_way_to_store_x(store, cells, tmp_path):
    made = anndata.AnnData(store(cells[0].X.toarray()), obs=cells[0].obs, var=cells[0].var)
    made.write_h5ad(tmp_path / "t.h5ad")
    X = read_table(tmp_path / "t.h5ad").raw
    np.testing.assert_array_equal(X.toarray() if sp.issparse(X) else X, cells[0].X.toarray())


def test_what_is_wrong_is_said_in_a_sentence(cells, path, tmp_path, capsys):
    refused(
        lambda: read_table(path, target="celltype"), "no obs column 'celltype'", "did you mean 'cell_type'?"
    )
    refused(lambda: read_table(path, features=["GENE1", "GONE"]), "lacks 1 of the 2 columns", "'GONE'")
    (tmp_path / "cut.h5ad").write_bytes(path.read_bytes()[:4000])
    refused(lambda: read_table(tmp_path / "cut.h5ad"), "not a whole .h5ad file")
    with h5py.File(tmp_path / "other.h5ad", "w") as made:
        made["x"] = 1
    refused(lambda: read_table(tmp_path / "other.h5ad"), "not a whole .h5ad file")
    anndata.AnnData(obs=cells[0].obs).write_h5ad(tmp_path / "none.h5ad")
    refused(lambda: read_table(tmp_path / "none.h5ad"), "has no X")
    cells[0][:0].copy().write_h5ad(tmp_path / "empty.h5ad")
    refused(lambda: read_table(tmp_path / "empty.h5ad"), "has no rows in X")
    twice = anndata.AnnData(np.ones((2, 2)), var=pd.DataFrame(index=["a", "a"]))
    twice.write_h5ad(tmp_path / "twice.h5ad")
    refused(lambda: read_table(tmp_path / "twice.h5ad"), "more than one gene named 'a'")
    hold = f"import h5py; f = h5py.File({str(path)!r}, 'a'); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"open\n"
        refused(lambda: read_table(path), "is locked by another program")
        holder.communicate(b"\n")
    run(capsys, "fit", path, "-t", "cell_type", "-m", "lda", "-o", tmp_path / "m")
    _, err = run(capsys, "predict", tmp_path / "m", path, "-o", path, status=2)
    assert "is a file that is read" in err
    pd.DataFrame(cells[0].X.toarray(), columns=cells[0].var_names).to_csv(tmp_path / "t.csv")
    _, err = run(capsys, "predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "o.h5ad", status=2)
    assert "would be a copy of the .h5ad file" in err


EXAMPLE = Path(__file__).parents[3] / "docs" / "gene_expression.py"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="needs the repository's docs")
def test_the_example_of_the_docs(tmp_path, capsys):
    """To call every cell by the most frequent type is right in 30%."""
    arguments = ["--cells", "300", "--genes", "250", "--folder", str(tmp_path), "-m", "labelfold", "-r", "1"]
    share = runpy.run_path(str(EXAMPLE))["main"](arguments)
    assert share > 0.4
    assert "annotated.h5ad has obsm ['X_labelfold']" in capsys.readouterr().out
