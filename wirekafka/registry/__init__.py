"""Schema Registry's HTTP API over the topic `_schemas` of any Kafka cluster."""
