"""Cases of administration: topics, configurations, quotas, replicas and the cluster."""
