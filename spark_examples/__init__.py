"""Spark programs that read from and write to Kafka, and the demo around the first of them."""
