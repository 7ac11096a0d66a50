"""A Kafka broker in Python, wire for wire and file for file."""
