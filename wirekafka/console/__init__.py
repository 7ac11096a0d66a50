"""Web pages over the admin APIs of any Kafka cluster; imported only when they are served."""
