"""The PySpark data source `wirekafka`: the reader behind the API of Spark."""

from wirekafka.spark.source import KafkaLogSource as Source

__all__ = ["Source"]
