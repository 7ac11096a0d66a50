"""The console: pages about a cluster for operators, over Kafka's protocol."""
