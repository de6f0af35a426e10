# Everything starts from `python3` (3.11 or newer): the first target that needs it makes .venv and installs into it.
#   make up        a broker on 127.0.0.1:9092 (make up ARGS="--port 9999 --data /tmp/x"), and in the background a small
#                  pipeline on PySpark, which it installs (make up ARGS=--no-spark leaves it out)
#   make test      lint and the tests; test-long adds the slow ones; test-kafka those beside Apache Kafka (needs Java);
#                  test-spark those with PySpark, which it installs; test-spark-long with 100 kills
#                  (make test WORKERS=0 ARGS="tests/log -x": one after the other, some of them)
#   make sim       simulated clusters in which everything breaks (make sim ARGS="--seeds 10000 --first 5000")
#   make sim-mutants  bugs planted in the code, which the simulations must find
#   make bench     the benchmarks beside Apache Kafka (needs Java); bench-cluster those of three nodes
#   make torture   nodes of a real cluster are killed, paused and cut off under load: 30 minutes, or DURATION=5
#   make format    let ruff tidy the code; make lint only looks
.DEFAULT_GOAL := help
.PHONY: help up test test-long test-kafka test-spark test-spark-long sim sim-mutants bench bench-cluster torture lint format clean

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.installed
DEV    := $(VENV)/.installed-dev
SPARK  := $(VENV)/.installed-spark
AGAIN  := $(MAKE)
PIP    := $(BIN)/python tools/pip_install.py
# As pip does with what it installs: else, where Python is told to write no bytecode, each process compiles all of it.
COMPILE := $(BIN)/python -m compileall -q src
ARGS   ?=
DURATION ?= 30
# More of them than a small machine has cores: many tests wait for a process or for a client's timer.
WORKERS ?= 3
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

help:
	@sed -n 's/^#   //p' Makefile

# Remade when dependencies change. Stamps are written last, so that an interrupted install is tried again.
$(RUN): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Ottla needs Python 3.11 or newer, and there is no $(PYTHON) here."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ottla needs Python 3.11 or newer, but $(PYTHON)\
	is $$($(PYTHON) -V 2>&1). Name a newer one: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Preparing $(VENV) (only the first time) ..."
	@$(PYTHON) -m venv $(VENV) || { echo "$(PYTHON) -m venv failed; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@$(PIP) -e .
	@$(COMPILE)
	@touch $@

$(DEV): $(RUN)
	@echo "Installing what tests, checks and benchmarks need (only the first time) ..."
	@$(PIP) -e '.[test,lint,bench]'
	@touch $@

# Not by -e '.[pipelines]': that would install ottla itself anew, which may run meanwhile.
$(SPARK): $(RUN)
	@echo "Installing PySpark (only the first time; 500 MB) ..."
	@$(BIN)/python tools/requirements_of.py pipelines | $(PIP) -r /dev/stdin
	@touch $@

# The broker does not wait for PySpark: what brings it is told to `ottla up`, which does so once it is up.
up: $(RUN)
	@exec $(BIN)/ottla up --spark --spark-first '$(AGAIN) -s $(SPARK)' $(ARGS)

test: lint
	@$(COMPILE)
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'not slow and not kafka and not spark' $(ARGS)

test-long: lint
	@$(COMPILE)
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) --hypothesis-profile=others -m 'not kafka and not spark' $(ARGS)

test-kafka: $(DEV)
	@$(BIN)/python -m pytest -m kafka $(ARGS)

# One after the other: a Spark is a whole machine's work.
test-spark: $(DEV) $(SPARK)
	@$(BIN)/python -m pytest -m 'spark and not slow' tests/spark tests/pipeline $(ARGS)

test-spark-long: $(DEV) $(SPARK)
	@$(BIN)/python -m pytest -m spark tests/spark tests/pipeline $(ARGS)

sim: $(RUN)
	@exec $(BIN)/ottla sim run --seeds 1000 $(ARGS)

sim-mutants: $(DEV)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist load tests/sim/test_simulated_cluster_planted_bugs.py \
	tests/sim/test_simulated_node_planted_bugs.py tests/sim/test_simulated_upkeep.py \
	tests/sim/test_simulated_transactions.py tests/sim/test_simulated_tiers.py -k planted_bug $(ARGS)

bench: $(DEV)
	@$(COMPILE)
	@$(BIN)/python -m bench.run $(ARGS)

bench-cluster: $(DEV)
	@$(COMPILE)
	@$(BIN)/python -m bench.cluster $(ARGS)

torture: $(DEV)
	@$(BIN)/python -m tests.torture.torture --minutes $(DURATION) $(ARGS)

lint: $(DEV)
	@$(BIN)/ruff format --check -q . || { echo "make format puts this right"; exit 1; }
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >.lint-imports.log 2>&1 || { cat .lint-imports.log; rm -f .lint-imports.log; exit 1; }
	@rm -f .lint-imports.log

format: $(DEV)
	@$(BIN)/ruff format -q .
	@$(BIN)/ruff check -q --fix .

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
