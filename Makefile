# Every target makes and uses .venv: nothing else has to be installed but Python 3.11+, make and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Twice two cores: of all the time that tests take, half is waiting for processes that they started.
WORKERS ?= 4
SEEDS ?= 1000
FROM ?= 0

# Where the tests may have their files in memory, and run some of them: they make and remove a hundred thousand.
MEMORY := $(shell [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 4000000 ] && \
  ! grep -q ' /dev/shm [^ ]* [^ ]*noexec' /proc/mounts && echo /dev/shm)
SCRATCH = $(or $(MEMORY),$(TMPDIR),/tmp)

# The tests start hundreds of processes: let each find what the first one compiled, whatever the shell prefers.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test live check collected simulate crashes races intake chaos delays failovers mutants bench docs fmt install clean \
  pin-images

demo: $(STAMP)
	$(BIN)/agentsmith demo

# Everything but live accounts. While one core checks types, the other compiles the tests for all workers. The files of
# tests that fail are kept.
test: $(STAMP)
	@$(MAKE) --no-print-directory --jobs 2 check collected
	scratch=$$(mktemp -d $(SCRATCH)/as.XXXX) && chmod 755 $$scratch && export TMPDIR=$$scratch && \
	  $(BIN)/pytest -q -n $(WORKERS) --dist worksteal --ignore=tests/live && rm -rf $$scratch

# The conformance suite on real accounts that environment variables name (CONTRIBUTING.md), rehearsed on the simulators.
live: $(STAMP)
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal tests/live

collected: $(STAMP)
	@$(BIN)/pytest -qq --collect-only --ignore=tests/live > $(VENV)/collected || { cat $(VENV)/collected; exit 1; }

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

simulate: $(STAMP)
	$(BIN)/python -m tests.simulation --from $(FROM) --seeds $(SEEDS)

# Writes deploy/images.env: each image by its digest. Needs docker and a registry.
pin-images:
	$(PYTHON) deploy/pin_images.py

mutants: $(STAMP)
	$(BIN)/python -m tests.mutants

# Kill -9 and SIGSTOP between every two steps of a claim, a run, its end and a recovery, and around every git command.
crashes: $(STAMP)
	AGENTSMITH_CRASH_FULL=1 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal \
	  tests/e2e/test_crash_matrix.py tests/e2e/test_kill_at_steps.py tests/git/test_healing.py

# The tests of one process with every step in Redis late: finds those that count on how soon one follows another.
delays: $(STAMP)
	AGENTSMITH_TEST_DELAYS=0.02 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal tests/roles tests/store tests/conformance

# Two writers race for each label, a thousand rounds of each race on every platform: never two winners.
races: $(STAMP)
	AGENTSMITH_RACE_ROUNDS=$(or $(ROUNDS),1000) $(BIN)/pytest -q -n $(WORKERS) tests/conformance/test_races.py

# Webhooks, polls, the reconciler and a second replica on the same thousand tickets: one run of each.
intake: $(STAMP)
	AGENTSMITH_INTAKE_TICKETS=$(or $(TICKETS),1000) $(BIN)/pytest -q tests/e2e/test_intake.py

# Real processes under every kind of fault; the last line is the result. More: make chaos TICKETS=1000 SEED=7
chaos: $(STAMP)
	@$(BIN)/python -m tests.chaos --tickets $(or $(TICKETS),100) $(if $(SEED),--seed $(SEED)) $(if $(SENTINEL),--sentinel)

# Sentinel failovers, planned and by kill, while tickets are in every state.
failovers: $(STAMP)
	AGENTSMITH_FAILOVERS=$(or $(FAILOVERS),20) $(BIN)/pytest -q tests/e2e/test_failover.py

# What the product does, as ratios to what this machine does raw; alone on it. A part: make bench ROWS="queue receiver".
# Whether a daemon grows takes minutes, and is measured only when it is named: make bench ROWS=growth PASSES=1
bench: $(STAMP)
	$(BIN)/agentsmith bench $(ROWS) $(if $(PASSES),--passes $(PASSES))

# What the program says about its commands, and what it decides about tickets, as pages.
docs: $(STAMP)
	$(BIN)/python -m tests.repo.commands_page
	$(BIN)/python -m tests.repo.json_page
	$(BIN)/python -m tests.repo.decisions_page

fmt: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "agentsmith needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
