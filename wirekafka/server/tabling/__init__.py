"""Topics as Iceberg tables: the worker process of a broker, its input, reports and metrics."""
