# Tasks of dsh-otel; `make` alone lists them.
#
# All tools live in .venv, installed from the hash-locked set in requirements/dev.txt. Nothing outside
# this folder is touched. Set-up runs by itself whenever it is missing, stale or was interrupted.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# The interpreter that .venv is made from (3.11 or newer), and further arguments for the tool that a
# task runs: `make test ARGS="-k tracer"`.
PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
# Stamps, each written last. .deps: the locked set is complete; .ready: this project is installed too.
DEPS := $(VENV)/.deps
READY := $(VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# Modules from outside must not shadow the locked ones.
unexport PYTHONHOME PYTHONPATH

# An environment that was moved or copied, or whose interpreter is gone, does not count.
ifneq ($(shell $(BIN)/python -c '' 2>/dev/null && cat $(DEPS) 2>/dev/null),$(CURDIR))
.PHONY: $(DEPS)
endif

.PHONY: help
help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: $(READY) ## Show what dsh-otel makes of the sample sessions
	@$(BIN)/dsh-otel demo $(ARGS)

.PHONY: test
test: $(READY) ## Run the unit tests (ARGS="-k word" for some of them)
	@$(BIN)/python -m pytest -n auto $(ARGS)

.PHONY: cover
cover: $(READY) ## Run the unit tests and say which branches they leave out
	@$(BIN)/python -m pytest -n auto --cov=dsh_core --cov=dsh_otel --cov-branch \
		--cov-report=term:skip-covered $(ARGS)

# What cannot be built here is skipped by the tests that need it, and named at the end of the run.
.PHONY: test-e2e
test-e2e: $(READY) ## Run the slow tests: real servers, runtimes and browsers
	@$(BIN)/python -m tests.e2e.programs || true
	@$(BIN)/python -m pytest -m "slow or e2e" --timeout=600 $(ARGS)

.PHONY: lint
lint: $(READY) ## Check style, types and the direction of imports
	@echo "lint: ruff check"
	@$(BIN)/ruff check .
	@echo "lint: ruff format --check"
	@$(BIN)/ruff format --check .
	@echo "lint: mypy"
	@$(BIN)/mypy
	@echo "lint: import-linter"
	@$(BIN)/lint-imports --no-logo

.PHONY: format
format: $(READY) ## Format the code and fix what ruff can fix
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

.PHONY: bench
bench: $(READY) ## Measure what the README says about speed
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: docs
docs: $(READY) ## Write the generated pages under docs/ anew
	@$(BIN)/python -m dsh_otel.docs $(ARGS)

.PHONY: setup
setup: $(READY) ## Only set up .venv; every other task does so when needed

# Resolved for the oldest Python we support, so that no dependency of that version is missing.
.PHONY: lock
lock: $(DEPS) ## Write requirements/dev.txt anew (ARGS=--upgrade for newer versions)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
		echo "error: the lock is made with Python 3.11: make clean && make lock PYTHON=python3.11" >&2; \
		exit 1; \
	}
	@echo "lock: resolving pyproject.toml"
	@CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/python -m piptools compile --quiet \
		--extra=otlp --extra=harness --extra=live --extra=receive --extra=instrument --extra=dev \
		--generate-hashes --allow-unsafe --strip-extras \
		--no-emit-find-links --no-emit-index-url --no-emit-trusted-host \
		--output-file=requirements/dev.txt $(ARGS) pyproject.toml
	@echo "lock: requirements/dev.txt is up to date"

.PHONY: clean
clean: ## Remove .venv and everything that tools wrote
	@rm -rf $(VENV) .cache build dist htmlcov *.egg-info .coverage .coverage.* \
		dsh-otel-demo.otlp.json dsh-traces.otlp.json .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment is always made from nothing: no half-installed package survives an interrupted
# set-up, and none that has left the lock stays behind.
$(DEPS): requirements/dev.txt
	@version=$$($(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || { \
		echo "error: cannot run '$(PYTHON)'; dsh-otel needs Python 3.11 or newer." >&2; \
		echo "  Install it, or name another interpreter: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	}; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: '$(PYTHON)' is Python $$version; dsh-otel needs 3.11 or newer." >&2; \
		echo "  If you have one under another name, say so: make PYTHON=python3.12" >&2; \
		exit 1; \
	}; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "error: '$(PYTHON)' cannot make virtual environments: its venv module has no ensurepip." >&2; \
		echo "  On Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; \
	}; \
	echo "setup: making $(VENV) with Python $$version"; \
	$(PYTHON) -m venv --clear $(VENV)
	@echo "setup: installing $$(grep -c '^[a-z].*==' requirements/dev.txt) locked packages (about half a minute)"
	@$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements/dev.txt
	@printf '%s\n' "$(CURDIR)" > $@

$(READY): pyproject.toml $(DEPS)
	@echo "setup: installing dsh-otel itself"
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check > /dev/null || { \
		$(BIN)/python -m pip check >&2; \
		echo "error: requirements/dev.txt does not fit pyproject.toml; run: make lock" >&2; \
		exit 1; \
	}
	@touch $@
