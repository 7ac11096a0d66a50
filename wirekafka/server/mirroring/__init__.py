"""Mirrors of another cluster's topics: its brokers, the fetches, groups and configurations."""
