"""What the console knows of Kafka's protocol, to show requests and errors."""
