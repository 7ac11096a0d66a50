"""An instance of a registry: its topic, its part in the election, its users, and its server."""
