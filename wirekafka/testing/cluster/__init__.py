"""`wirekafka.Cluster`: nodes of a cluster in this process, and faults of whole nodes."""
