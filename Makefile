# Rillet: `make run` starts the server, `make test` proves it. Both set up everything they need.

PYTHON ?= python3
PORT   ?= 6379
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin

# Modules are compiled once, not at each of the hundreds of starts: a machine may have that switched off for all.
export PYTHONDONTWRITEBYTECODE :=
# A test fails where another program is missing; a plain `pytest` leaves it out and says so (tests/support/needs.py).
export RILLET_NEEDS ?= all

.PHONY: help install run peers test test-quick test-pythons test-redis-py test-proxy test-simulation test-heavy test-frameworks test-spark coverage crash lint format docs release-check bench bench-inside bench-compare bench-scaling bench-waits bench-proxy bench-loading bench-start bench-pythons bench-spark bench-console fuzz differential clean

help:
	@echo "make run [PORT=6379] [ARGS='--appendonly yes']   start the server"
	@echo "make test [ARGS='-k xclaim']                     run every test"
	@echo "make test-quick [ARGS='-k xclaim']               what needs no JVM, no browser and no other server"
	@echo "make peers                                       install and build what the tests compare with"
	@echo "make test RILLET_RANDOM=1                        the same with other random examples each time"
	@echo "make test-pythons [ARGS='-m \"not spark\"']        run every test on each Python found, 3.11 to 3.14"
	@echo "make test-proxy                                  a proxy in front of real servers, with other people's clients, kills and 512 MB"
	@echo "make test-redis-py                               rillet.testing with redis-py 4.5, 5.2, 6, 7 and 8"
	@echo "make test-heavy                                  tests that take long: more versions of real clusters"
	@echo "make test-simulation [SEEDS=50]                  rillet.testing.simulation, on a Python from 3.12 on"
	@echo "make test-console                                the console in chromium, on each kind of server"
	@echo "make test-frameworks                             all frameworks, heavy ones too, installed into .frameworks"
	@echo "make test-spark                                  a cluster, Connect, Declarative Pipelines (installs pandas, gRPC)"
	@echo "make crash [KILLS=1000] [ENDS=200] [SPARK_KILLS=100] [STATE_KILLS=5] [CLUSTER_KILLS=20] [SEED=7]   kill -9 under load, again and again"
	@echo "make fuzz [MINUTES=60] [SEED=7] [ARGS='-k acl']    every fuzzer of tests/fuzz for long, every example"
	@echo "make differential [COMMANDS=1000000] [SEED=7]   beside Redis 7.0, 8.2, 8.6, 8.10 and Valkey, for long"
	@echo "make docs                                        the site, into build/site"
	@echo "make release-check [EXTRAS=testing] [PYTHONS=3.11]   build it, install it, run README from it"
	@echo "make bench [QUICK=1] [ARGS='xadd xclaim']        beside redis-server and valkey-server"
	@echo "make bench-inside [ARGS='xclaim --profile']      the process without sockets, also on a busy machine"
	@echo "make bench-compare BASE=commit [ARGS='xclaim']   beside an earlier commit"
	@echo "make bench-scaling [QUICK=1]                     what grows with the data"
	@echo "make bench-waits [QUICK=1] [ARGS='greedy']       how long clients wait for what others do"
	@echo "make bench-proxy                                 what rillet proxy costs in front of Redis 8.10.2"
	@echo "make bench-loading [QUICK=1]                     how fast files are loaded"
	@echo "make bench-start [ARGS='--rounds 3']             start to the first PONG and idle, beside fakeredis, too"
	@echo "make bench-pythons                               the same commands on each Python of make test-pythons"
	@echo "make bench-console                               what the console costs a server, and itself"
	@echo "make bench-spark [QUICK=1] [ARGS='planning']     the Spark pipeline, beside plain loops"
	@echo "make lint | format | install | clean"

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

# What the tests need of other people: Debian's redis-server, chromium and exporter by apt, Redis 8.10.2 built in .peers/.
peers: $(VENV)/.installed-dev
	@PYTHON=$(BIN)/python sh tests/peers.sh
	@sh tests/browser.sh

# Tests that wait for replicas and timeouts leave half of a core idle: on two cores two workers take 420 seconds for the
# replication and the test tools, four take 300; for all tests four take 696 and five 659.
WORKERS ?= 5

test: peers
	RILLET_RANDOM=$(RILLET_RANDOM) $(BIN)/pytest -n $(WORKERS) --dist loadgroup $(ARGS)
	@PYTHON=$(BIN)/python sh tests/simulation.sh

# The simulation needs Python 3.12: on a newer Python than that of $(VENV), where there is one. SEEDS multiplies the seeds.
test-simulation:
	@PYTHON=$(BIN)/python ALWAYS=1 RILLET_SEEDS=$(or $(SEEDS),1) sh tests/simulation.sh $(ARGS)

# Each in an environment of its own below .venvs/.
test-redis-py:
	@PYTHON=$(PYTHON) sh tests/redis_py.sh $(ARGS)

# What needs neither a JVM nor a browser nor other people's servers, and no minutes of waiting or of chance.
LONG := clients crash differential frameworks fuzz harness pipeline/test_clusters.py server/sentinel \
	test_site.py testing/test_sentinel.py testing/test_wheel.py
test-quick: $(VENV)/.installed-dev
	RILLET_NEEDS=none $(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not spark and not frameworks and not many_jvms and not heavy and not browser" \
		$(foreach place,$(LONG),--ignore tests/$(place)) $(ARGS)

# A proxy before other people's clients and libraries, killed again and again, with values of 512 MB (Redis' limit).
test-proxy: peers
	RILLET_SEED=$(SEED) RILLET_STORIES=2000 RILLET_PROXY_KILLS=200 RILLET_PROXY_CROSSINGS=400 RILLET_PROXY_COMMANDS=50000 RILLET_LARGE_MB=512 $(BIN)/pytest -n 2 \
		tests/testing/proxying tests/testing/test_proxy_command.py $(ARGS)
	$(BIN)/pytest -m "" -k proxy tests/clients/test_node.py tests/frameworks $(ARGS)

# Each in an environment of its own below .venvs/.
test-pythons:
	@sh tests/pythons.sh ARGS='$(ARGS)'

# `make test` leaves out those marked as heavy (see addopts in pyproject.toml).
test-heavy: peers
	$(BIN)/pytest -n 2 -m heavy --durations 0 --durations-min 1 $(ARGS)

# The console in chromium on each kind of server; `make test` has it on Rillet. RILLET_PICTURES=1 makes those of docs/.
test-console: peers
	$(BIN)/pytest -m "" --durations 0 --durations-min 1 tests/console $(ARGS)

# Frameworks that take long are left out as well; this runs all of them.
test-frameworks: peers
	$(BIN)/pytest -n 2 -m "" --durations 0 --durations-min 1 tests/frameworks tests/testing/test_wheel.py \
		tests/clients/test_cluster_clients.py tests/clients/test_sentinel_clients.py tests/server/sentinel $(ARGS)

# Not in `make test`: needs another extra (pandas, gRPC), JVMs that the other tests do not have, and Spark 4.0 to 4.2 (.venvs).
test-spark: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,connect]'
	@PYTHON=$(BIN)/python sh tests/peers.sh
	$(BIN)/pytest -m many_jvms --durations 0 --durations-min 1 tests/pipeline $(ARGS)

coverage: peers
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n 2 --dist loadgroup $(ARGS)
	-$(BIN)/coverage combine --quiet # the file of a process that a test killed may be torn
	$(BIN)/coverage report --fail-under=95

# What all chance of a long run comes from; `make test` has the same seed each time.
SEED := $(or $(SEED),$(shell date +%s))

KILLS ?= 1000
ENDS ?= 200
SPARK_KILLS ?= 100
STATE_KILLS ?= 5
CLUSTER_KILLS ?= 20

# With Spark Connect, as test-spark.
crash: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,connect]'
	RILLET_SEED=$(SEED) RILLET_KILLS=$(KILLS) RILLET_ENDS=$(ENDS) RILLET_SPARK_KILLS=$(SPARK_KILLS) RILLET_STATE_KILLS=$(STATE_KILLS) \
		RILLET_CLUSTER_KILLS=$(CLUSTER_KILLS) $(BIN)/python -m pytest -n 2 --dist loadgroup -m "" tests/crash $(ARGS)

MINUTES ?= 60
# Two workers share the fuzzers, so all together get twice the minutes.
fuzz: $(VENV)/.installed-dev
	RILLET_RANDOM=1 RILLET_FUZZ_SECONDS=$$(($(MINUTES) * 120)) RILLET_FUZZ_SEED=$(SEED) \
		$(BIN)/python -m pytest -n 2 --dist worksteal -rP tests/fuzz $(ARGS)
	RILLET_RANDOM=1 RILLET_ALL=1 $(BIN)/python -m pytest -n 2 --dist loadgroup \
		$$(grep -rlE 'support\.thorough|^from hypothesis' tests --include 'test_*.py') $(ARGS)

COMMANDS ?= 100000

# Builds Redis 8.6.2 and 8.2.3 as well: two minutes each, once. A million commands take about an hour.
differential: $(VENV)/.installed-dev
	@PYTHON=$(BIN)/python sh tests/peers.sh 8.10.2 8.6.2 8.2.3
	RILLET_RANDOM=1 RILLET_ALL=1 RILLET_SEED=$(SEED) RILLET_ALL_VERSIONS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup tests/differential \
		tests/storage/rdb tests/server/persistence tests/server/replication $(ARGS)
	$(BIN)/python tests/differential/long_run.py --commands $(COMMANDS) --seed $(SEED)
	$(BIN)/python tests/differential/long_run.py --commands $(COMMANDS) --seed $(SEED) --crossed

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p .types && ln -sfn .. .types/rillet
	MYPYPATH=.types $(BIN)/mypy --strict -p rillet
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Builds what would be published, and uses it from outside the checkout: make release-check EXTRAS="testing console" PYTHONS=3.11
release-check: $(VENV)/.installed-dev
	$(BIN)/python .ci/release_check.py

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

# docs/ and README.md show a whole run, none of chosen rows.
WHOLE = $(if $(QUICK),--quick)$(if $(QUICK)$(ARGS),,--publish)

bench: peers
	$(BIN)/python benchmarks/bench.py $(WHOLE) $(ARGS)

# Without sockets, so that a busy machine hardly shows.
bench-inside: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/in_process.py $(if $(ARGS),,--publish) $(ARGS)

# make bench-compare BASE=main~10: what changed since costs
bench-compare: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/compare.py --base $(BASE) $(ARGS)

bench-scaling: peers
	$(BIN)/python benchmarks/scaling.py $(WHOLE) $(ARGS)

bench-waits: peers
	$(BIN)/python benchmarks/waits.py $(if $(QUICK),--quick) $(ARGS)

bench-proxy: peers
	$(BIN)/python benchmarks/proxied.py --publish $(ARGS)

bench-loading: peers
	$(BIN)/python benchmarks/loading.py $(if $(QUICK),--quick) $(ARGS)

bench-start: peers
	$(BIN)/python benchmarks/starting.py --publish $(ARGS)

bench-pythons: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/starting.py --pythons --publish $(ARGS)

bench-console: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/console.py --publish $(ARGS)

bench-spark: peers
	$(BIN)/python benchmarks/spark.py $(if $(QUICK),--quick) $(ARGS)

clean:
	rm -rf $(VENV) .venvs .types .frameworks build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
