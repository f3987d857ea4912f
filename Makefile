# Wavecheck. `make` or `make help` lists what there is.
#
# All set-up happens here: a machine needs Python 3.11 to 3.13 (with venv and pip), git and make.
# Everything is installed into .venv; nothing outside this folder is touched but the caches of
# pip and of `wavecheck frontend fetch`.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
WAVECHECK := $(BIN)/wavecheck

# The interpreter that makes the environment: `make test PY=python3.13` chooses another one.
ifndef PY
PY := $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	  $$name -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	    2>/dev/null && echo $$name && break; done)
endif
ifneq ($(PY),)
TAG := $(shell $(PY) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
endif
# One stamp for each interpreter, so that another PY makes a fresh environment.
READY := $(VENV)/.ready-$(or $(TAG),none)

# pip, mypy and the binary cache all want a home; in a container there may be none.
ifeq ($(strip $(HOME)),)
export HOME := $(CURDIR)/$(VENV)/home
endif
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Tests against the real frontend fetch binaries, so they run on request only (.ci/run asks).
ifdef WAVECHECK_TEST_FRONTENDS
MARK :=
else
MARK := -m "not vllm_rs"
endif
PYTEST_FLAGS ?= -q -n 2

.PHONY: help test lint unit conformance docs site mutation coverage evidence endurance flakes licences audit sbom clean venv

help: ## list the targets
	@echo "usage: make TARGET [PY=python3.x]"; echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' Makefile | while IFS="$$(printf '\t')" read -r name text; \
	  do printf '  %-12s %s\n' "$$name" "$$text"; done

test: lint unit ## environment, lint, types, import contracts, all tests (no binary needed)

conformance: $(READY) ## environment, then every scenario on sim, zmq, the adapter and the newest real frontend
	@status=0; newest=$$($(BIN)/python -c 'from client.protocol.profiles import NEWEST; print(NEWEST)'); \
	for target in sim zmq adapter; do \
	  echo "== conformance of the reference client on $$target"; \
	  $(WAVECHECK) run --target $$target || status=1; \
	done; \
	echo "== conformance of vllm-rs $$newest (its wheel is downloaded the first time)"; \
	platform=$$(uname -s)-$$(uname -m); fetched=0; \
	if [ "$$platform" != Linux-x86_64 ]; then \
	  echo "NOT RUN: vllm-rs $$newest: there is no binary for $$platform, only for Linux-x86_64"; \
	elif said=$$($(WAVECHECK) frontend fetch "$$newest" 2>&1) || fetched=$$?; [ $$fetched = 0 ]; then \
	  $(WAVECHECK) run --target vllm-rs --frontend "$$newest" --allow-known || status=1; \
	elif [ $$fetched = 3 ]; then \
	  printf '%s\n' "$$said" | sed 's/^/  /'; \
	  echo "NOT RUN: vllm-rs $$newest: its binary could not be fetched, see the lines above"; \
	else \
	  printf '%s\n' "$$said"; status=1; \
	fi; \
	exit $$status

lint: $(READY) ## format, lint, strict types, import contracts
	@echo "== format"; $(BIN)/python -m ruff format --check --quiet . \
	  || { echo "mend it with: $(BIN)/ruff format ."; exit 1; }
	@echo "== lint"; $(BIN)/python -m ruff check --quiet .
	@echo "== types"; $(BIN)/python -m mypy
	@echo "== import contracts"; said=$$($(BIN)/lint-imports 2>&1) || { printf '%s\n' "$$said"; exit 1; }

unit: $(READY) ## the tests alone (PYTEST_FLAGS="-q -n 2")
	@echo "== tests"; $(BIN)/python -m pytest $(PYTEST_FLAGS) $(MARK)

docs: $(READY) ## write the generated tables of docs/ again
	@$(BIN)/python -m harness.docs

site: $(READY) ## the documentation as a site, in site/; every warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "written: site/index.html"

mutation: $(READY) ## small faults in the pure modules, tried on the fast tests (10 to 20 minutes; docs/mutation.md)
	@$(BIN)/python -m tests.mutation

coverage: $(READY) ## branches of client, mock engines and invariants that tests and simulated runs reach (docs/reliability.md)
	@$(BIN)/python -m tests.coverage

evidence: $(READY) ## traces with one event removed, doubled, swapped or changed: which invariants notice (minutes)
	@$(BIN)/python -m tests.evidence

endurance: $(READY) ## two hours of simulated load: memory, descriptors and tasks have to stay flat (minutes)
	@$(BIN)/python -m benchmarks.endurance

flakes: $(READY) ## the tests 20 times, those of real frontends 5 times; goes on where it was stopped (hours)
	@$(BIN)/python -m tests.flakes

licences: $(READY) ## write the list of packages and licences again
	@$(BIN)/python -m tests.dependencies licences

audit: $(READY) ## known vulnerabilities of what is installed; NOT RUN where nobody can be asked
	@$(BIN)/python -m tests.dependencies audit

sbom: $(READY) ## a bill of materials of what users install, in wavecheck-out/sbom.json
	@$(BIN)/python -m tests.dependencies sbom wavecheck-out/sbom.json

venv: $(READY) ## the environment alone, in .venv

clean: ## remove the environment, all caches and reports
	@rm -rf $(VENV) .tox .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@rm -rf build dist site wavecheck-out ./*.egg-info
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(VENV)/.ready-none:
	@echo "make: no Python 3.11 to 3.13 with venv and pip was found; say make PY=/path/to/python" >&2
	@exit 1

$(VENV)/.ready-%: pyproject.toml
	@echo "== environment ($(PY), Python $*; the first time takes a minute or two)"
	@$(PY) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@
