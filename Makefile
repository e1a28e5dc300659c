# Every target sets up the environment that it needs, in $(VENV). `make demo` and `make test` are the first to try.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
LOWEST ?= .venv-lowest
BIN = $(VENV)/bin
# The build of the package obeys the constraints, too: its machine code is used with the version of numba that compiled it.
CONSTRAINED = PIP_CONSTRAINT=$(1) PIP_BUILD_CONSTRAINT=$(1)
PIP = $(call CONSTRAINED,constraints.txt) $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-slow test-all test-lowest test-changed constraints-lowest check notebooks docs docs-serve performance benchmark sbc mutation fuzz clean

demo: $(VENV)/.installed  ## fit the built-in table, print truth and workers, write demo-results/
	$(BIN)/crowdppl demo --out demo-results --overwrite

# Byte code is kept: without it each of the many processes of the suite, the command's included, would compile all modules anew.
export PYTHONDONTWRITEBYTECODE =
FAST = $(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal
# Tracing doubles the time of Python code, and compiled passes are not traced: coverage is measured where files are read and written.
COVERED = tests/data tests/export tests/posterior

test: $(VENV)/.tools  ## the fast suite, and the share of lines that a part of it runs
	$(FAST) $(addprefix --ignore=,$(COVERED))
	$(FAST) --cov --cov-report=term $(COVERED)

test-slow: $(VENV)/.peers  ## the slow tests: samplers at length, other people's programs, every kind of data
	$(BIN)/python .ci/guarded.py slow --all

test-all: $(VENV)/.peers  ## the whole suite
	$(BIN)/python -m pytest -n 2

test-lowest: $(LOWEST)/.installed  ## the tests that touch other packages most, with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/python .ci/guarded.py lowest --all

# As above, but the parts whose files have not changed since they last passed.
test-changed: $(VENV)/.peers $(LOWEST)/.installed  ## the slow tests and those with the lowest versions, where what they guard has changed
	$(BIN)/python .ci/guarded.py slow
	$(LOWEST)/bin/python .ci/guarded.py lowest

constraints-lowest: $(VENV)/.installed  ## constraints-lowest.txt anew, after a change of pyproject.toml
	$(PIP) 'uv>=0.9'
	{ sed -n '/^#/p' constraints-lowest.txt; \
	  grep -E '^(torch|pytest|pytest-xdist|hypothesis)==' constraints.txt | \
	  $(BIN)/uv pip compile --quiet --resolution lowest-direct --python-version 3.11 --no-annotate --no-header pyproject.toml - | \
	  grep -vE '^(cuda|nvidia|triton)'; } >constraints-lowest.new
	mv constraints-lowest.new constraints-lowest.txt

check: $(VENV)/.tools  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs  ## the documentation site, in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/.docs  ## the same at http://127.0.0.1:8000, rebuilt at every change
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

notebooks: $(VENV)/.tools  ## execute the notebooks in full and store their outputs; CROWDPPL_DATA must name the public data sets
	$(BIN)/python notebooks/run.py

performance: $(VENV)/.peers  ## docs/benchmarks/performance.md: up to 100 million annotations, half an hour, 16 GB
	$(BIN)/python benchmarks/performance.py

benchmark: $(VENV)/.peers  ## every table in docs/ that starts with "benchmark"
	for script in em_iteration real_data default_model gibbs_vs_numpyro nuts hierarchy gibbs_sweeps acceleration engines priors learned_priors sparse_data float32 replay streamed_intervals verdicts copies classifier_prior features_coverage textbook_crowds many_classes plausible_crowds known_items labels_per_worker agreement_intervals judges judges_priors judges_widths pairwise_preference baselines glad_mace unused_classes other_labels grades numeric numeric_features sequences token_features label_sets perspectives covariates several_solutions \
		calibration/design_effect calibration/model_coverage calibration/forms calibration/correlated_sbc calibration/known_truths calibration/simulated calibration/residual \
		startup threads result_size time_to_answer ranks papers/crowd_mixture papers/labelme papers/two_gaussians papers/bluebirds papers/subtypes papers/medical papers/lia papers/redundancy papers/conal papers/music papers/digits papers/sorting papers/programs papers/conal_cifar10 papers/summary; do \
		$(BIN)/python benchmarks/$$script.py || exit 1; done

sbc: $(VENV)/.tools  ## simulation-based calibration of every model by every engine: docs/benchmarks/sbc.md and the models' pages
	$(BIN)/python benchmarks/sbc.py

mutation: $(VENV)/.tools  ## do the tests notice when the code is changed? a sample of mutants; docs/guide/trust.md has the figure
	$(PIP) 'mutmut>=3.8'
	$(BIN)/python benchmarks/mutation.py

# torch first and by its pinned version: anything else that asks for torch would take the newest, with all of CUDA.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e .
	touch $@

$(VENV)/.tools: $(VENV)/.installed
	$(PIP) -e '.[test]'
	touch $@

$(VENV)/.peers: $(VENV)/.tools
	$(PIP) -e '.[benchmark]'
	touch $@

$(VENV)/.docs: $(VENV)/.tools
	$(PIP) -e '.[docs]'
	touch $@

$(LOWEST)/.installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(call CONSTRAINED,constraints-lowest.txt) $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check torch
	$(call CONSTRAINED,constraints-lowest.txt) $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -e . pytest pytest-xdist hypothesis
	touch $@

fuzz: $(VENV)/.tools  ## damage exports at random for two minutes: read, or refused in one line
	cd tests && ../$(BIN)/python fuzz.py --seconds 120

clean:
	rm -rf $(VENV) $(LOWEST) crowdppl/kernels/binaries build dist site *.egg-info demo-results
