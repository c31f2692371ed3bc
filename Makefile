# Two commands on a fresh machine: `make run` and `make test`. Needs Python 3.11+, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run ui test chaos check format bench clean

run: $(VENV)/.base ## the main job on the shipped collection
	$(BIN)/python run.py estimator=uncertainty budget=tight

ui: $(VENV)/.ui ## the SuperPrompt page over the demo collection, http://127.0.0.1:8501, no key needed
	$(BIN)/python -m ragtune.adapters.page --corpus datasets/demo

test: $(VENV)/.dev ## every test
	$(BIN)/python -m pytest

chaos: $(VENV)/.dev ## kills, full disks, locked and damaged files, dishonest components; CHAOS_SEED=n for other moments
	CHAOS_EXAMPLES=10000 $(BIN)/python -m pytest tests/chaos \
		tests/unit/core/test_dishonest_components.py tests/unit/core/test_stateful.py

check: $(VENV)/.dev ## lint, security, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev ## speed, as ratios
	$(BIN)/python benchmarks/run_all.py

clean:
	rm -rf $(VENV) build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

$(VENV)/.ui: $(VENV)/.base
	$(PIP) --editable '.[ui]'
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) --editable '.[dev]'
	touch $@
