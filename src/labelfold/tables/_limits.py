"""Limits that several files share: how much of a table is looked at, what is beyond chance, and what is shown."""

from __future__ import annotations

# Budgets of memory and time (benchmarks/recipe.py): largest numbers of evenly spaced rows, and of labelled rows, that
# a recipe is fitted on.
LEARNED_FROM, LABELLED = 100_000, 20_000
# Number of rows that are fitted on, or transformed, at a time. Of larger tables words are hashed, and a sparse matrix
# is float32.
BLOCK = LEARNED_FROM + LABELLED
# Budget: number of cells of a column, of characters of a text, and of labelled rows from which a column is judged.
SAMPLE = 2_000
# Budget: number of cells that are compared at a time; a few arrays of them stay within some megabytes.
AT_ONCE = 500_000
# The usual level: a finding is significant if its probability by chance is at most this.
SIGNIFICANCE = 0.01
# Smallest numbers of cells with a property, and of rows, from which anything is concluded: 5 is the usual minimum of
# tests on counts, and two columns of flags agree or disagree in all of 10 rows with probability 2**-9, or 0.2%.
MIN_CELLS, MIN_ROWS = 5, 10
# A choice: with fewer rows only ascending numbers are row counters, and distinct values are not ids.
MIN_COUNTED = 20
# Budget of columns: largest number of values of a category that are treated one by one.
MAX_VALUES = 50
# Below this share of non-zeros a column, or a matrix of many columns, is treated as sparse. A sparse matrix then
# takes 15% of the bytes of a dense one, as an entry takes 12 bytes instead of 8.
SPARSE = 0.1
# Choices of presentation: largest number of cells or columns in a sentence, and of characters of a cell.
SHOWN, LENGTH = 4, 30
