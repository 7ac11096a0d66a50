"""Compares any Kafka-compatible broker with answers that were recorded from Apache Kafka."""
