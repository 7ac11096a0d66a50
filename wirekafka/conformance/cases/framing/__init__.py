"""Framing and versions: frames, headers, and what brokers advertise."""
