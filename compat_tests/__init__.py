"""Real clients against a live broker, and the same against Apache Kafka."""
