# Two commands, each on a fresh clone: `make demo` and `make test`.
.PHONY: demo test lint clean

demo:
	@.ci/set-up
	@.venv/bin/python -m spark_examples.demo $(DEMO)

test:
	@.ci/set-up
	@.venv/bin/python -m pytest -q $(TEST)

lint:
	@.ci/set-up --without-java
	.venv/bin/ruff check .
	.venv/bin/mypy --strict wirekafka

clean:
	rm -rf .venv .cache build dist
