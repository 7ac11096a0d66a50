"""A Kafka broker in Python, wire for wire and file for file."""

__version__ = "0.1.0"
