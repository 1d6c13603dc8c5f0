# Every target works from a bare Python ≥ 3.11: the environment is made first, with the exact set in constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: env demo test lint types layers check docs doctest bench gpu clean

env: .venv/done

.venv/done: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: env
	$(BIN)/lexergy demo

test: env
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: env
	$(BIN)/basedpyright

layers: env
	$(BIN)/lint-imports

check: lint types layers test docs demo

docs: env
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

bench: env
	$(BIN)/python benchmarks/run.py

gpu:
	PYTHONPATH=src $(PYTHON) -m pytest -m gpu -p no:cacheprovider
	PYTHONPATH=src $(PYTHON) benchmarks/run.py --device cuda

clean:
	rm -rf .venv build dist docs/_build docs/rooms runs
