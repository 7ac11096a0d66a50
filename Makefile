# Each works on a fresh clone. `make bench BENCH=--quick` takes four minutes.
.PHONY: demo check test test-all simulate bench spark-matrix docs lint package clean

# Compiled modules are kept, also where the environment says otherwise: else each of the many
# processes that tests start compiles the broker again, for a second of CPU.
export PYTHONDONTWRITEBYTECODE :=

demo:
	@.ci/set-up
	@.venv/bin/python -m spark_examples.demo $(DEMO)

# Before each commit, in under a minute with mypy's cache: linters, types, and the tests of the
# folders that need no Java and open no sockets.
PURE = tests/codec tests/config tests/coordinator tests/log tests/metadata \
	tests/metrics tests/quotas tests/replication tests/security tests/tables tests/telemetry
check:
	@.ci/set-up --without-java
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy
	@.venv/bin/python -m pytest -q -n 2 --dist worksteal \
		-m "not long and not sweep and not campaign" --ignore tests/tables/iceberg $(PURE)

# Without TEST: tests/, then compat_tests/, each in three processes for two cores, as their tests also
# wait for other processes and for time to pass; then the tests that time, in one. SEEDS sets how
# many seeds each simulation runs. A test that exceeds its time limit ends its process, which is
# replaced: it may hang in a library that no signal interrupts.
PARTS = -n 3 --dist worksteal --timeout-method thread
FILES = -n 3 --dist loadfile -p tests.file_scheduling --timeout-method thread
export WIREKAFKA_SEEDS := $(SEEDS)
test:
	@.ci/set-up
ifdef TEST
	@.venv/bin/python -m pytest -q $(TEST)
else
	@status=0; \
	.venv/bin/python -m pytest -q $(PARTS) tests --ignore tests/test_speed_guard.py || status=1; \
	.venv/bin/python -m pytest -q $(FILES) compat_tests || status=1; \
	.venv/bin/python -m pytest -q tests/test_speed_guard.py || status=1; \
	exit $$status
endif

# All seeds, whole sweeps and long campaigns: hours. Each test is printed as it ends.
test-all: export WIREKAFKA_TESTS = all
test-all:
	@.ci/set-up
	@status=0; \
	.venv/bin/python -m pytest -v $(PARTS) -m "not campaign" tests \
		--ignore tests/test_speed_guard.py || status=1; \
	.venv/bin/python -m pytest -v $(FILES) -m "not campaign" compat_tests || status=1; \
	.venv/bin/python -m pytest -v -s -m campaign tests compat_tests || status=1; \
	.venv/bin/python -m pytest -v tests/test_speed_guard.py || status=1; \
	exit $$status

bench:
	@.ci/set-up
	@.venv/bin/python -m benchmarks $(BENCH)

spark-matrix:
	@.ci/set-up
	@.venv/bin/python -m compat_tests.spark_matrix $(SPARK)

simulate:
	@.ci/set-up --without-java
	@.venv/bin/python -m tests.simulation --seeds $(or $(SEEDS),1000) \
		$(if $(REPLICATION),--replication) $(if $(QUORUM),--quorum) \
		$(if $(CLUSTER),--cluster) $(if $(TIERED),--tiered)

# The pages of docs/ as a site in build/site. With --quiet, warnings would not fail it.
docs:
	@.ci/set-up --without-java
	@.venv/bin/python -m mkdocs build

lint:
	@.ci/set-up --without-java
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/python -m pip check
	@if [ -x .venv/bin/pip-audit ]; then .venv/bin/pip-audit --no-deps --disable-pip -r requirements.lock; \
	else echo "lint: pip-audit is not installed: dependencies are not compared with known weaknesses" >&2; fi

# Wheel and sdist in dist/, tried in an empty environment of each of PYTHONS.
package:
	@.ci/try-package $(or $(PYTHONS),python3)

clean:
	rm -rf .venv .cache build dist

# All tests of Spark, the long ones too, and ten kills: the other tests run in `make test`.
.PHONY: spark-campaign
spark-campaign:
	@.ci/set-up
	@WIREKAFKA_KILLS=$(or $(KILLS),10) .venv/bin/python -m pytest -v -m "campaign or not campaign" \
		$(or $(TEST),$(wildcard compat_tests/test_spark*.py))

# Clusters of Apache Kafka and wirekafka in which every broker, and each controller that leads, is
# stopped, killed and paused in turn.
.PHONY: cluster-campaign
cluster-campaign:
	@.ci/set-up
	@.venv/bin/python -m pytest -v -s -m campaign $(or $(TEST),compat_tests/test_mixed_clusters.py \
		compat_tests/test_mixed_workloads.py compat_tests/test_cluster_administration.py \
		compat_tests/test_quorum_campaign.py)
