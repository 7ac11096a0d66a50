"""Clients' connections: listeners, logins, the pipeline, and the caches of repeated requests."""
