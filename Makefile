# Two commands need nothing done before: `make demo` and `make test`. Both make an environment in $(VENV) first.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all check benchmark clean

demo: $(VENV)/.installed  ## fit the built-in table, print truth and workers, write demo-results/
	$(BIN)/crowdppl demo --out demo-results --overwrite

test: $(VENV)/.tools  ## the fast suite
	$(BIN)/python -m pytest -m "not slow" -n 2

test-all: $(VENV)/.tools  ## the whole suite
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.tools  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

benchmark: $(VENV)/.tools  ## every table in docs/ that starts with "benchmark"
	$(PIP) -e '.[benchmark]'
	for script in em_iteration real_data gibbs_vs_numpyro acceleration engines priors sparse \
		papers/crowd_mixture papers/labelme papers/two_gaussians papers/bluebirds papers/subtypes papers/medical; do \
		$(BIN)/python benchmarks/$$script.py || exit 1; done

# torch first and by its pinned version: anything else that asks for torch would take the newest, with all of CUDA.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e .
	touch $@

$(VENV)/.tools: $(VENV)/.installed
	$(PIP) -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info demo-results
