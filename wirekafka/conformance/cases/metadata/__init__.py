"""Metadata: topics, brokers and coordinators as clients find them, and telemetry of clients."""
