# Everything a contributor runs. `make` alone prints this list.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
EXAMPLE ?= examples/ring-allreduce/jobset.yaml

.DEFAULT_GOAL := help
.PHONY: help run test test-failed test-ml check format bench clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## install, then run a real JobSet on this machine (EXAMPLE=FILE for another one)
	$(BIN)/jobset run $(EXAMPLE)

test: $(VENV)/.installed-dev ## all tests but the machine-learning ones
	$(BIN)/python -m pytest -n auto --dist loadgroup

test-failed: $(VENV)/.installed-dev ## those that failed last time, one after the other
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-ml: $(VENV)/.installed-ml ## the JAX and PyTorch examples, for real
	$(BIN)/python -m pytest -m ml tests/examples

check: $(VENV)/.installed-dev ## lint, types, layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

format: $(VENV)/.installed-dev ## rewrite the code in the house's format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.installed-dev ## every benchmark; each prints its figures as one JSON line last
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-ml: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,ml]'
	@touch $@ $(VENV)/.installed $(VENV)/.installed-dev
