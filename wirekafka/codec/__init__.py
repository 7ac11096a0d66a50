"""Kafka's bytes: messages, frames, record batches."""
