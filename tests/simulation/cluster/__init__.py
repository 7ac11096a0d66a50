"""A simulated cluster: whole nodes on one virtual loop, their clients, faults and checks."""
