"""What is wrong with any Kafka cluster or with a data directory, and what to do about it."""
