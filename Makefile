# Two commands to know: `make demo` and `make test`. Both need only python3.11 or newer and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test test-studies test-slow fuzz coverage check shape format bench docs lock clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.runtime  ## run a simulated federation, both rounds, with a table and a report
	$(BIN)/twofold demo

test: $(VENV)/.dev  ## run the tests and doctests of the package, except the slow ones
	$(PYTEST) -n auto -m "not slow" tests src --ignore=tests/studies

test-studies: $(VENV)/.dev  ## run the tests and doctests of the laboratory, except the slow ones
	$(PYTEST) -n auto -m "not slow" tests/studies studies

test-slow: $(VENV)/.dev  ## run the slow tests, minutes each
	$(PYTEST) -n auto -m slow

fuzz: $(VENV)/.dev $(VENV)/.fuzz  ## send requests made from the service's own OpenAPI document
	$(PYTEST) tests/studies/network/test_openapi.py

coverage: $(VENV)/.dev  ## run the same tests and print which lines they reach
	$(PYTEST) -n auto -m "not slow" --cov --cov-report=term

shape: $(VENV)/.dev  ## print files, lines, longest and smallest modules
	$(BIN)/python -m studies shape

check: $(VENV)/.dev  ## run ruff, mypy strict and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev  ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## time twofold beside its peers; prints ratios
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "twofold needs Python 3.11 or newer; found: $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(VENV)/.python
	$(PIP) install --require-hashes -r requirements/runtime.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.%: requirements/%.txt $(VENV)/.runtime
	$(PIP) install --require-hashes -r requirements/$*.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev

# Locks hold versions and hashes and name no registry. uv resolves all platforms in one run.
LOCK = uv pip compile --universal --no-strip-extras --python-version 3.11 --generate-hashes --no-header --no-annotate -q pyproject.toml
lock:  ## resolve the dependencies again (needs uv)
	$(LOCK) --group build -o requirements/runtime.txt
	$(LOCK) --extra all --group dev -c requirements/runtime.txt -o requirements/dev.txt
	$(LOCK) --extra all --group fuzz -c requirements/dev.txt -o requirements/fuzz.txt
	$(LOCK) --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(LOCK) --extra all --extra bench -c requirements/dev.txt -o requirements/bench.txt

clean:  ## remove everything the targets made
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage build dist
