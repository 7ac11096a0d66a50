"""Listeners, controllers and roles of a node, read from its options."""
