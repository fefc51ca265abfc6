# Two commands to know: `make demo` and `make test`. Both need only python3.11 or newer and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
PYTEST := $(BIN)/python -m pytest
FLOWER := .venv-flower
FUZZ   := .venv-fuzz
SYNTH  := .venv-synth
SPARK  := .venv-spark

.DEFAULT_GOAL := help
.PHONY: help demo federation test test-long test-studies test-slow test-install fuzz coverage check shape format bench bundle flower test-flower synth spark test-spark docs screenshots lock clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.runtime  ## run a simulated federation, both rounds, with a table and a report
	$(BIN)/twofold demo

federation: $(VENV)/.dev  ## run a federation over TLS between network namespaces (root), one party killed; then with two operators
	$(BIN)/python -m studies federation

test: $(VENV)/.dev  ## run the tests and doctests of the package, except the long and the slow ones
	$(PYTEST) -n auto -m "not slow and not long" tests src deploy --ignore=tests/studies

test-long: $(VENV)/.dev  ## run pages typed as written, browsers, killed federations, hostile files
	$(PYTEST) -n auto -m "long and not slow" tests --ignore=tests/studies

test-studies: $(VENV)/.dev  ## run the tests and doctests of the laboratory, except the slow ones
	$(PYTEST) -n auto -m "not slow" tests/studies studies

test-slow: $(VENV)/.dev  ## run the slow tests, minutes each
	$(PYTEST) -n auto -m slow

test-install: $(VENV)/.dev  ## install wheel and sdist in clean environments, oldest and newest dependencies; print sizes
	$(PYTEST) -q -s -m "slow or not slow" tests/test_install.py

fuzz: $(FUZZ)/.ready  ## send requests made from the services' own OpenAPI documents
	$(FUZZ)/bin/python -m pytest tests/studies/network/test_openapi.py tests/serve/test_openapi.py

coverage: $(VENV)/.dev  ## run all but the slow tests and print which lines they reach
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

bundle: $(VENV)/.dev  ## build the offline bundle into dist/: wheels, hashes, SBOM, install script
	$(BIN)/python -m deploy.bundle

flower: $(FLOWER)/.ready  ## make the environment of the Flower adapter in .venv-flower

test-flower: $(VENV)/.dev $(FLOWER)/.ready  ## run a federation through a real SuperLink and SuperNodes
	$(PYTEST) tests/adapters

synth: $(SYNTH)/.ready  ## make the environment of the private synthesizer in .venv-synth

spark: $(SPARK)/.ready  ## make the environment of the Spark tests in .venv-spark (needs Java 17)

test-spark: $(SPARK)/.ready  ## run the release on a real Spark, in local mode
	$(SPARK)/bin/python -m pytest -m "slow or not slow" tests/cluster/test_spark.py

docs: $(VENV)/.docs  ## build the documentation site into site/
	$(BIN)/python -m studies reference docs/reference/commands.md
	PYTHONPATH=. $(BIN)/zensical build --strict --clean

screenshots: docs $(VENV)/.dev  ## take the pictures of the documentation (needs Chromium)
	$(BIN)/python -m studies screenshots

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "twofold needs Python 3.11 or newer; found: $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(VENV)/.python
	$(PIP) install --no-deps --require-hashes -r requirements/runtime.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.%: requirements/%.txt $(VENV)/.runtime
	$(PIP) install --no-deps --require-hashes -r requirements/$*.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev

# Flower's limits are narrow, so it never shares an environment with the rest (docs/decisions/0020).
$(FLOWER)/.ready: requirements/flower.txt adapters/flower/pyproject.toml
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r requirements/flower.txt
	$(FLOWER)/bin/python -m pip --disable-pip-version-check -q install --no-deps --no-build-isolation -e adapters/flower
	@touch $@

# So are those of schemathesis: in our environment its older libraries of the command line would break other tests.
$(FUZZ)/.ready: requirements/fuzz.txt requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r requirements/runtime.txt
	$(FUZZ)/bin/python -m pip --disable-pip-version-check -q install --no-deps --no-build-isolation -e .
	$(FUZZ)/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r requirements/fuzz.txt
	@touch $@

# JAX is large, and only one study needs it.
$(SYNTH)/.ready: requirements/synth.txt
	$(PYTHON) -m venv $(SYNTH)
	$(SYNTH)/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r requirements/synth.txt
	@touch $@

# pyspark brings an engine of 400 megabytes that nothing else here needs.
$(SPARK)/.ready: requirements/spark.txt requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r requirements/runtime.txt
	$(SPARK)/bin/python -m pip --disable-pip-version-check -q install --no-deps --no-build-isolation -e .
	$(SPARK)/bin/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r requirements/spark.txt
	@touch $@

# A lock is complete, so nothing is resolved here (--no-deps): pip would stop at a newer version of what has an extra.
# Locks hold versions and hashes and name no registry. uv resolves all platforms in one run.
RESOLVE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate -q
LOCK = $(RESOLVE) pyproject.toml --extra plot
lock:  ## resolve the dependencies again (needs uv)
	$(LOCK) --extra plot --group build -o requirements/runtime.txt
	$(LOCK) --extra network -c requirements/runtime.txt -o requirements/network.txt
	$(LOCK) --extra all --group dev -c requirements/network.txt -c requirements/runtime.txt -o requirements/dev.txt
	$(LOCK) --extra all --group fuzz -c requirements/dev.txt -o requirements/fuzz.txt
	$(LOCK) --extra all --group spark -c requirements/dev.txt -o requirements/spark.txt
	$(LOCK) --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(LOCK) --extra all --extra bench -c requirements/dev.txt -o requirements/bench.txt
	$(RESOLVE) adapters/flower/pyproject.toml --group adapters/flower/pyproject.toml:build -o requirements/flower.txt
	$(RESOLVE) --group pyproject.toml:synth -o requirements/synth.txt

clean:  ## remove everything the targets made
	rm -rf $(VENV) $(FLOWER) $(FUZZ) $(SYNTH) $(SPARK) site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .coverage .cache build dist
