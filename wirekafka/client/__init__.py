"""A synchronous client of any Kafka broker, for the commands and the console."""
