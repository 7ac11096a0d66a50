"""A simulated metadata quorum: controllers with their disks, a network, faults, and checks."""
