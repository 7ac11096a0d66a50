# Each on a fresh clone: `make demo`, `make test` and `make bench` (BENCH=--quick: four minutes).
.PHONY: demo test simulate bench spark-matrix lint clean

demo:
	@.ci/set-up
	@.venv/bin/python -m spark_examples.demo $(DEMO)

# Without TEST: the tests of the parts in two processes, then those that time or share JVMs in one.
ALONE = compat_tests tests/test_speed_guard.py
test:
	@.ci/set-up
ifdef TEST
	@.venv/bin/python -m pytest -q $(TEST)
else
	@status=0; \
	.venv/bin/python -m pytest -q -n 2 tests --ignore tests/test_speed_guard.py || status=1; \
	.venv/bin/python -m pytest -q $(ALONE) || status=1; \
	exit $$status
endif

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
		$(if $(CLUSTER),--cluster)

lint:
	@.ci/set-up --without-java
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy --strict wirekafka
	.venv/bin/python -m pip check
	@if [ -x .venv/bin/pip-audit ]; then .venv/bin/pip-audit --no-deps --disable-pip -r requirements.lock; \
	else echo "lint: pip-audit is not installed: dependencies are not compared with known weaknesses" >&2; fi

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
