"""The metadata of a cluster, folded over its records."""
