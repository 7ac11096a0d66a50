# Each on a fresh clone: `make demo`, `make test` and `make bench` (BENCH=--quick: four minutes).
.PHONY: demo test simulate bench spark-matrix lint clean

demo:
	@.ci/set-up
	@.venv/bin/python -m spark_examples.demo $(DEMO)

test:
	@.ci/set-up
	@.venv/bin/python -m pytest -q $(TEST)

bench:
	@.ci/set-up
	@.venv/bin/python -m benchmarks $(BENCH)

spark-matrix:
	@.ci/set-up
	@.venv/bin/python -m compat_tests.spark_matrix $(SPARK)

simulate:
	@.ci/set-up --without-java
	@.venv/bin/python -m tests.simulation --seeds $(or $(SEEDS),1000)

lint:
	@.ci/set-up --without-java
	.venv/bin/ruff check .
	.venv/bin/mypy --strict wirekafka

clean:
	rm -rf .venv .cache build dist

# All tests of Spark, the long ones too, and ten kills: the other tests run in `make test`.
.PHONY: spark-campaign
spark-campaign:
	@.ci/set-up
	@WIREKAFKA_KILLS=$(or $(KILLS),10) .venv/bin/python -m pytest -v -m "campaign or not campaign" \
		$(or $(TEST),$(wildcard compat_tests/test_spark*.py))
