"""Connections to other brokers: fetching replicas, markers, verification, share states."""
