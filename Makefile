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
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
EXE := $(if $(filter Windows_NT,$(OS)),.exe)
BIN := $(VENV)/$(SCRIPTS)
# The tools of `make lint` are in an environment of their own: they need nothing of labelfold, and come in seconds.
LINT := $(VENV)/lint/$(SCRIPTS)
# The extras that the tests need.
EXTRAS := app,dask,label,layout,sources
# The first pip that knows dependency groups.
NEW_PIP := -m pip install --quiet "pip>=25.1"
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Byte code is kept, whatever the environment says: tests start many processes. pip would compile all modules of all
# packages, with one core; most are never imported.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test gpu campaign page papers experiments lint types format doctest alltests docs coverage wheel \
  clean

help:
	@sed -n '1,8p' Makefile | sed 's/^# //'

demo: $(VENV)/.app
	$(BIN)/labelfold demo --output demo

# Each pytest worker uses one core, so BLAS uses one thread: more threads would wait for each other.
test: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

gpu:
	LABELFOLD_TEST_DEVICE=cuda PYTHONPATH=src $(PYTHON) -m pytest -k "torch or device" tests/rows tests/discriminant \
	  tests/factorization tests/subspace $(ARGS)

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
	$(BIN)/python $(NEW_PIP)
	$(BIN)/python -m pip install --quiet --group docs
	LABELFOLD_DATA=$(LABELFOLD_DATA) $(BIN)/python experiments/all.py $(ARGS)

CHECK_SCHEMA := $(LINT)/check-jsonschema --builtin-schema vendor.
# Needs no network once the tools are installed.
lint: $(VENV)/.lint
	$(LINT)/ruff check .
	$(LINT)/ruff format --check .
	$(LINT)/codespell
	$(LINT)/repo-review --show err .
	$(LINT)/zizmor --offline --quiet .github
	$(LINT)/pre-commit validate-config .pre-commit-config.yaml
	$(CHECK_SCHEMA)dependabot .github/dependabot.yml
	$(CHECK_SCHEMA)github-workflows .github/workflows/*.yml
	$(CHECK_SCHEMA)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(CHECK_SCHEMA)github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

# Mypy checks the code, Pyright what editors know of the public names. Pyright comes with Node, from PyPI.
types: $(VENV)/.test $(VENV)/.lint
	$(BIN)/mypy
	$(BIN)/python tests/public_types.py $(LINT)/pyright

format: $(VENV)/.lint
	$(LINT)/ruff check --fix .
	$(LINT)/ruff format .

# The loops of Triton need a GPU.
DOCTESTS := --doctest-modules --ignore-glob '*/_triton_*.py' src/labelfold
doctest: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto $(DOCTESTS)

# The examples in docstrings and the test suite in the same processes, which saves their start.
alltests: $(VENV)/.test
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal $(DOCTESTS) tests $(ARGS)

# The pages that scripts write. Tests fail if one of them is not up to date.
docs: $(VENV)/.test
	$(BIN)/python docs/methods.py
	$(BIN)/python docs/parameters.py
	$(BIN)/python docs/memory.py
	$(BIN)/python docs/rooms.py
	$(BIN)/python experiments/papers.py

# Which lines of the library the tests run: in the terminal, and line by line in htmlcov/index.html.
coverage: $(VENV)/.test
	$(BIN)/coverage erase
	OPENBLAS_NUM_THREADS=1 $(BIN)/coverage run -m pytest -n auto --dist worksteal $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

# Builds the source archive and the wheel, imports the wheel in an environment that has nothing else, and runs the command
# line with the extra `app` alone.
wheel: $(VENV)/.wheel
	rm -rf dist build
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(PYTHON) -m venv build/installed
	build/installed/$(SCRIPTS)/python -m pip install --quiet --no-compile dist/*.whl
	cd build && installed/$(SCRIPTS)/python -c "import labelfold; print('installed:', labelfold.LabelFold())"
	build/installed/$(SCRIPTS)/python -m pip install --quiet --no-compile "$$(echo dist/*.whl)[app]"
	build/installed/$(SCRIPTS)/labelfold methods > build/methods.txt

# $(call VENV_IN,folder)
define VENV_IN
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "labelfold needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11"; exit 1; }
@$(PYTHON) -m venv $(1) || \
  { echo "python3 could not make a virtual environment; on Debian install python3-venv"; rm -rf $(1); exit 1; }
endef

$(BIN)/python$(EXE):
	$(call VENV_IN,$(VENV))

$(LINT)/python$(EXE):
	$(call VENV_IN,$(VENV)/lint)

$(VENV)/.app: pyproject.toml | $(BIN)/python$(EXE)
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[app]"
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python$(EXE)
	$(BIN)/python $(NEW_PIP)
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[$(EXTRAS)]" --group test --group types
	@touch $@ $(VENV)/.app

$(VENV)/.lint: pyproject.toml | $(LINT)/python$(EXE)
	$(LINT)/python $(NEW_PIP)
	$(LINT)/python -m pip install --quiet --no-compile --group lint
	@touch $@

$(VENV)/.wheel: pyproject.toml | $(BIN)/python$(EXE)
	$(BIN)/python $(NEW_PIP)
	$(BIN)/python -m pip install --quiet --no-compile --group wheel
	@touch $@

clean:
	rm -rf page/node_modules $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis .coverage htmlcov build dist demo
