"""The PySpark data source `wirekafka`: the reader behind the API of Spark."""
