# The few words a newcomer needs; `make help` lists them. Each does all the set-up itself.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/pip install --quiet --no-compile --disable-pip-version-check
LOCKED := $(PIP) --require-hashes --no-deps --only-binary :all:

.PHONY: help demo test test-all oldest lint format bench docs wheel lock clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(READY): pyproject.toml lock.txt lock-cpu.txt lock-cuda.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "acer needs Python 3.11 or newer; name one: make PYTHON=python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(LOCKED) -r lock-cpu.txt 2>/dev/null || echo "pip finds no PyTorch without CUDA here: installing the index's"
	$(LOCKED) -r lock.txt
	@$(BIN)/python .ci/cuda.py || $(LOCKED) -r lock-cuda.txt
	$(PIP) --no-deps --no-index --no-build-isolation -e .
	touch $@

demo: $(READY)  ## train ACER on CartPole, evaluate it, draw its curve, film it
	rm -rf runs/demo
	$(BIN)/acer train CartPole-v1 --out runs/demo
	$(BIN)/acer eval runs/demo
	$(BIN)/acer record runs/demo
	@echo "See runs/demo/curve.png and runs/demo/video.mp4"

test: $(READY)  ## the tests, a few minutes
	$(BIN)/pytest -n auto --dist worksteal

test-all: $(READY)  ## and those that train for longer
	$(BIN)/pytest -n auto --dist worksteal -m ''

oldest:  ## the tests with the oldest supported versions, in an environment of their own (Python 3.11)
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r constraints-oldest.txt
	build/oldest/bin/pip install --quiet --disable-pip-version-check --no-deps -e .
	build/oldest/bin/pytest -n auto --dist worksteal --ignore tests/test_documents.py --ignore tests/test_install.py

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

lock: $(READY)  ## lock.txt, lock-cpu.txt and lock-cuda.txt anew, after a change of pyproject.toml or constraints.txt
	$(PIP) uv
	$(BIN)/python .ci/lock.py

clean:  ## remove what the others made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
