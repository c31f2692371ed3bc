# Two commands on a fresh machine: `make run` and `make test`. Needs Python 3.11 to 3.13, git and make. `make` lists the targets.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The tests start hundreds of processes: each would compile every module anew where no bytecode may be written.
unexport PYTHONDONTWRITEBYTECODE
# uv takes half the time of pip, but reads none of pip's settings: where it fails, pip tries. Neither compiles anything
# beforehand: of the 35,000 modules few are ever imported, and those are compiled then.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt \
	$(if $(PIP_INDEX_URL),--default-index '$(PIP_INDEX_URL)') $(if $(PIP_FIND_LINKS),--find-links '$(PIP_FIND_LINKS)') $(1) \
	|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt $(1)
# They run the notebooks of examples/ without Jupyter's page.
NOTEBOOKS := ipykernel nbclient

.PHONY: help run ui test slurm chaos check format docs docs-serve examples constraints bench tables clean

help: ## what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: $(VENV)/.base ## the main job on the shipped collection
	$(BIN)/python run.py estimator=uncertainty budget=tight

ui: $(VENV)/.ui ## the SuperPrompt page over the demo collection, http://127.0.0.1:8501, no key needed
	$(BIN)/python -m ragtune.superprompt.page --corpus datasets/demo

# One process more than cores, since many tests wait for servers and processes.
# A worker that dies ends the run: pytest-xdist hangs where it replaces one under --dist loadfile.
test: $(VENV)/.dev ## every test, a file and its threads to a process
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(($$(OMP_NUM_THREADS= nproc) + 1)) --maxprocesses 4 \
		--dist loadfile --no-loadscope-reorder --max-worker-restart 0

slurm: $(VENV)/.dev ## a sweep on a real Slurm cluster of two nodes on this machine, where Debian's slurmctld and slurmd are installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest tests/slurm

chaos: $(VENV)/.dev ## kills, locked and damaged files, dishonest components; CHAOS_SEED=n for other moments
	CHAOS_EXAMPLES=10000 CHAOS_SERVER_SECONDS=60 $(BIN)/python -m pytest tests/chaos \
		tests/unit/core/test_dishonest_components.py \
		tests/e2e/test_llm_cascade.py tests/integration/superprompt/test_pipeline_llm.py

check: $(VENV)/.dev ## lint, security, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## let ruff mend and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev ## the site, in build/site: no network; a broken link or anchor is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo build/site/index.html

docs-serve: $(VENV)/.dev ## the site while you write, http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

examples: $(VENV)/.dev ## the notebooks of examples/, made from its scripts and run
	$(call install,$(NOTEBOOKS))
	cd examples && for notebook in *.ipynb; do \
		../$(BIN)/jupytext --quiet --to ipynb $${notebook%.ipynb}.py && \
		../$(BIN)/jupyter-execute --inplace $$notebook || exit 1; done

constraints: ## the versions that a fresh environment gets today, into constraints.txt
	rm -rf build/constraints
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --disable-pip-version-check '.[dev]' $(NOTEBOOKS)
	{ echo "# What was tested together. Made by: make constraints"; \
		build/constraints/bin/python -m pip freeze | grep -v "^ragtune @" | sed 's/+cpu$$//'; } > constraints.txt

bench: $(VENV)/.dev ## speed, as ratios
	$(BIN)/python benchmarks/run_all.py

DATA ?= ../shared/data
STUDIES ?= open variants trust signals calls refused shared ablations expansion
tables: $(VENV)/.dev ## every table of results/frontier again, in build/tables; DATA=folder of the collections
	for name in dl19 dl21 nfcorpus; do \
		test -d results/graphs/$$name \
			|| $(BIN)/ragtune graph --out results/graphs/$$name dataset=beir dataset.path=$(DATA)/$$name || exit 1; done
	for study in $(STUDIES); do \
		$(BIN)/ragtune study --config $$study --data $(DATA) --out build/tables/$$study || exit 1; done

clean: ## remove .venv and what was built
	rm -rf $(VENV) build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile uv

$(VENV)/.base: $(VENV)/bin/python pyproject.toml constraints.txt
	$(call install,--editable '.[experiments]')
	touch $@

$(VENV)/.ui: $(VENV)/.base
	$(call install,--editable '.[ui]')
	touch $@

# All extras at once, so that nothing is resolved and built twice.
$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(call install,--editable '.[dev]')
	touch $(VENV)/.base $(VENV)/.ui $@
