"""The conformance kit where Apache Kafka can be started: records its answers, and proves them."""
