"""Gene expression with few annotated cells: write an .h5ad file, run compare on it, and read the result.

    python docs/gene_expression.py                      3,000 cells by 2,000 genes, 60 of them annotated
    python docs/gene_expression.py --cells 300 --genes 200 --folder try --methods labelfold,lda

Further options are those of labelfold compare.

The cells are generated, so that all types are known: counts with the sparsity and depth of droplet sequencing, of
eight types in three lineages, the rarest with 2% of the cells. The command is the one for a real file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sp

from labelfold.app.commands._cli import main as labelfold

TYPES = ["CD4 T", "CD8 T", "NK", "B", "plasma", "CD14 mono", "CD16 mono", "DC"]
LINEAGE = np.array([0, 0, 0, 1, 1, 2, 2, 2])
SHARES = np.array([0.3, 0.2, 0.12, 0.12, 0.02, 0.14, 0.06, 0.04])


def make_cells(
    n_cells: int, n_genes: int, n_annotated: int, seed: int = 0
) -> tuple[anndata.AnnData, np.ndarray]:
    """Return cells, of which few have a type in ``obs["cell_type"]``, and the type of each cell.

    The mean of a gene is log-normal. One gene in ten differs between lineages and one in thirty between types, by a
    factor of about e. Cells differ in depth, and counts are negative binomial.
    """
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(TYPES), n_cells, p=SHARES)
    mean = rng.normal(-2.5, 1.5, n_genes)
    lineage = rng.normal(0, 1.0, (3, n_genes)) * (rng.random(n_genes) < 0.1)
    own = rng.normal(0, 1.0, (len(TYPES), n_genes)) * (rng.random((len(TYPES), n_genes)) < 1 / 30)
    rate = np.exp(mean + lineage[LINEAGE] + own)[kind]  # (n_cells, n_genes)
    rate *= rng.lognormal(0, 0.4, (n_cells, 1))
    counts = rng.poisson(rate * rng.gamma(2.0, 0.5, rate.shape))
    told = np.full(n_cells, None, dtype=object)
    order = rng.permutation(n_cells)
    first = [order[kind[order] == j][:2] for j in range(len(TYPES))]  # at least two of each type
    chosen = np.concatenate([*first, np.setdiff1d(order, np.concatenate(first), assume_unique=True)])
    told[chosen[:n_annotated]] = np.array(TYPES, dtype=object)[kind[chosen[:n_annotated]]]
    cells = anndata.AnnData(
        sp.csr_matrix(counts.astype(np.float32)),
        obs=pd.DataFrame({"cell_type": pd.Categorical(told)}, index=[f"cell{i}" for i in range(n_cells)]),
        var=pd.DataFrame(index=[f"gene{j}" for j in range(n_genes)]),
    )
    return cells, np.array(TYPES)[kind]


def main(argv: list[str] | None = None) -> float:
    """Write the file, run compare on it, and return the share of correct predictions among unannotated cells."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=3000)
    parser.add_argument("--genes", type=int, default=2000)
    parser.add_argument("--annotated", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=Path("gene-expression"))
    given, further = parser.parse_known_args(argv)
    given.folder.mkdir(parents=True, exist_ok=True)
    cells, truth = make_cells(given.cells, given.genes, given.annotated)
    path = given.folder / "cells.h5ad"
    cells.write_h5ad(path)
    command = ["compare", str(path), "--target", "cell_type", "--save", "--output", str(given.folder)]
    if status := labelfold([*command, *further]):
        raise SystemExit(status)
    made = anndata.read_h5ad(given.folder / "annotated.h5ad")
    unknown = cells.obs["cell_type"].isna().to_numpy()
    share = float((made.obs["labelfold_predicted"].to_numpy() == truth)[unknown].mean())
    print(f"\nOf the {unknown.sum():,} cells without annotation, {share:.1%} are named rightly.")
    print(f"annotated.h5ad has obsm {sorted(made.obsm)} and obs {sorted(made.obs)}.")
    return share


if __name__ == "__main__":
    main()
