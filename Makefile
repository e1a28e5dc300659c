# Two commands need nothing done before: `make demo` and `make test`. Both make an environment in $(VENV) first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-slow test-all check performance benchmark sbc mutation fuzz clean

demo: $(VENV)/.installed  ## fit the built-in table, print truth and workers, write demo-results/
	$(BIN)/crowdppl demo --out demo-results --overwrite

test: $(VENV)/.tools  ## the fast suite
	$(BIN)/python -m pytest -m "not slow" -n 2

test-slow: $(VENV)/.peers  ## the slow tests: samplers at length, other people's programs
	$(BIN)/python -m pytest -m slow -n 2

test-all: $(VENV)/.peers  ## the whole suite
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.tools  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

performance: $(VENV)/.peers  ## docs/performance.md: up to 100 million judgements, half an hour, 16 GB
	$(BIN)/python benchmarks/performance.py

benchmark: $(VENV)/.peers  ## every table in docs/ that starts with "benchmark"
	for script in em_iteration real_data gibbs_vs_numpyro acceleration engines priors sparse_data float32 replay streamed_intervals \
		calibration/design_effect calibration/coverage calibration/forms calibration/correlated_sbc \
		papers/crowd_mixture papers/labelme papers/two_gaussians papers/bluebirds papers/subtypes papers/medical; do \
		$(BIN)/python benchmarks/$$script.py || exit 1; done

sbc: $(VENV)/.tools  ## simulation-based calibration of every model by every engine: docs/sbc.md and the models' pages
	$(BIN)/python benchmarks/sbc.py

mutation: $(VENV)/.tools  ## do the tests notice when the code is changed? a sample of mutants; docs/trust.md has the figure
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

fuzz: $(VENV)/.tools  ## damage exports at random for two minutes: read, or refused in one line
	cd tests && ../$(BIN)/python fuzz.py --seconds 120

clean:
	rm -rf $(VENV) build dist *.egg-info demo-results
