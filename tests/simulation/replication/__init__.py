"""Three replicas of a partition under a virtual clock: one seed is one history of faults."""
