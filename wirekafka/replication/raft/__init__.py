"""KRaft, the Raft of Kafka's metadata quorum, without sockets and clocks (KIP-595, 853, 996)."""
