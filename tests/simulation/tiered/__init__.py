"""Clusters with tiered topics, whose object store fails, delays and loses answers."""
