# Rillet: `make run` starts the server, `make test` proves it. Both set up everything they need.

PYTHON ?= python3
PORT   ?= 6379
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help install run test lint format bench clean

help:
	@echo "make run [PORT=6379] [ARGS='--appendonly yes']   start the server"
	@echo "make test [ARGS='-k xclaim']                     run every test"
	@echo "make lint | format | bench | install | clean"

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

run: install
	exec $(BIN)/rillet --port $(PORT) $(ARGS)

test: $(VENV)/.installed-dev
	@sh tests/peers.sh
	$(BIN)/pytest -n 2 $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p .types && ln -sfn .. .types/rillet
	MYPYPATH=.types $(BIN)/mypy --strict -p rillet

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	@sh tests/peers.sh
	$(BIN)/python benchmarks/bench.py $(ARGS)

clean:
	rm -rf $(VENV) .types build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
