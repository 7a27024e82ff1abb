# The few words a newcomer needs; `make help` lists them. Each does all the set-up itself.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test test-all lint format bench docs wheel clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "acer needs Python 3.11 or newer; name one: make PYTHON=python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)  ## train ACER on CartPole, evaluate it, draw its curve, film it
	rm -rf runs/demo
	$(BIN)/acer train CartPole-v1 --out runs/demo
	$(BIN)/acer eval runs/demo
	$(BIN)/acer record runs/demo
	@echo "See runs/demo/curve.png and runs/demo/video.mp4"

test: $(READY)  ## the tests, a few minutes
	$(BIN)/pytest -n auto

test-all: $(READY)  ## and those that train for longer
	$(BIN)/pytest -n auto -m ''

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## ruff rewrites what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## speed against PFRL and against the bare cost of the same work
	$(BIN)/acer bench classic

docs: $(READY)  ## the documentation site in build/site; first the pages that are made from declarations
	$(BIN)/python docs/settings.py
	$(BIN)/python docs/metrics.py
	$(BIN)/python docs/claims.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Open build/site/index.html"

wheel: $(READY)  ## dist/acer-….whl
	$(BIN)/python -m build --wheel

clean:  ## remove what the others made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
