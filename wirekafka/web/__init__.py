"""HTTP servers in a process of wirekafka, each on a thread of its own."""
