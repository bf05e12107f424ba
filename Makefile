# Every target creates .venv first if it is missing or out of date.
.DEFAULT_GOAL := help
.PHONY: help setup test test-all lint bench reproduce-table reproduce-figure reproduce-paper plan sweep report audit clean

BIN := .venv/bin
INSTALLED := .venv/.installed
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c "import sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo "$$python" && break; done)
WORKERS ?= 2
# Exact versions with hashes; nothing is built, because a build would fetch packages without hashes.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
LOCKED := $(INSTALL) --require-hashes --only-binary :all: --requirement

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r target text; do \
		printf '  make %-18s %s\n' "$$target" "$$text"; done

setup: $(INSTALLED) ## create .venv and install silobench with its development tools, in locked versions

$(INSTALLED): pyproject.toml constraints/dev.txt constraints/torch.txt constraints/torch-cpu.txt
	@test -n "$(PYTHON)" || { echo "silobench needs Python 3.11 or newer; name one with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(LOCKED) constraints/dev.txt
	@$(BIN)/python -m pip show --quiet torch 2>/dev/null || $(LOCKED) constraints/torch-cpu.txt 2>/dev/null \
		|| { echo "pip finds no CPU build of PyTorch; installing the build of the package index"; \
			$(LOCKED) constraints/torch.txt; }
	$(INSTALL) --no-build-isolation --editable .
	$(BIN)/python -m pip check
	@touch $@

test: setup ## run the fast tests, without network and raw data (WORKERS=2 processes)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

test-all: setup ## run all tests; BENCH_DATA is the folder of raw data
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

lint: setup ## check style, types and the import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## measure speed against plain loops and write results/benchmarks/
	$(BIN)/python scripts/bench_speed.py
	$(BIN)/python scripts/client_speed.py
	$(BIN)/python scripts/bench_sweep.py

reproduce-table: setup ## re-run a table: TABLE=fenda/2-heart (default: quickstart)
	$(BIN)/silobench reproduce-table $(TABLE)

reproduce-figure: setup ## re-run a figure: FIGURE=fenda/3-heart
	$(BIN)/silobench reproduce-figure $(FIGURE)

reproduce-paper: setup ## re-run all tables and figures of a paper with available data: PAPER=fenda
	$(BIN)/silobench reproduce-paper $(PAPER)

audit: setup ## check a paper's claims against its printed numbers: PAPER=fenda
	$(BIN)/silobench audit $(PAPER)

plan: setup ## estimate the cost of a study on this machine: STUDY=my-study.toml
	$(BIN)/silobench plan $(STUDY)

sweep: setup ## run a study: STUDY=my-study.toml
	$(BIN)/silobench sweep $(STUDY)

report: setup ## rebuild tables and figures from the records, and results/report/index.html
	$(BIN)/silobench report

clean: ## remove .venv and tool caches; keep results
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
