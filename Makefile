# make demo   the main job on real data: a table, a model, and one offline HTML report
# make test   the whole test suite
# make campaign SECONDS=600 SEED=1   test estimators, commands and readers with random inputs and faults; see docs/reliability.md
# make gpu    the tests of tensors, on a GPU: PYTHON=python3 names an interpreter with torch and pytest
# make page   build the labelling page from page/ into src/labelfold/app/label/static (needs Node; its result is committed)
# make papers   the pages of docs/papers from the results of the experiments, in seconds; needs no data
# make experiments LABELFOLD_DATA=/folder/of/npz   run the experiments on the papers, hours; then make papers
# Each sets up its own virtual environment the first time and starts at once after that.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Byte code is kept, whatever the environment says: tests start many processes. pip would compile all modules of all
# packages, with one core; most are never imported.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test gpu campaign page papers experiments lint types format doctest alltests clean

help:
	@sed -n '1,8p' Makefile | sed 's/^# //'

demo: $(VENV)/.app
	$(BIN)/labelfold demo --output demo

# Each pytest worker uses one core, so BLAS uses one thread: more threads would wait for each other.
test: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

gpu:
	LABELFOLD_TEST_DEVICE=cuda PYTHONPATH=src $(PYTHON) -m pytest -k "torch or device" tests/rows tests/discriminant \
	  tests/factorization tests/subspace tests/numerics/test_kl_ratios.py $(ARGS)

SECONDS ?= 60
SEED ?= 0
PARTS ?= cases faults files
campaign: $(VENV)/.test
	$(BIN)/python campaign --seconds $(SECONDS) --seed $(SEED) --parts $(PARTS) $(ARGS)

page:
	cd page && npm ci --ignore-scripts --no-audit --no-fund && npm run check && npm run build

papers: $(VENV)/.app
	$(BIN)/python experiments/papers.py

experiments: $(VENV)/.app
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	LABELFOLD_DATA=$(LABELFOLD_DATA) $(BIN)/python experiments/all.py $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The loops of Triton need a GPU.
DOCTESTS := --doctest-modules --ignore-glob '*/_triton_*.py' src/labelfold
doctest: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto $(DOCTESTS)

# The examples in docstrings and the test suite in the same processes, which saves their start.
alltests: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(DOCTESTS) tests $(ARGS)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "labelfold needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "python3 could not make a virtual environment; on Debian install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.app: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[app]"
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[test]"
	@touch $@ $(VENV)/.app

clean:
	rm -rf page/node_modules $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis demo
