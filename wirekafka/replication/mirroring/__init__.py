"""Mirrors of another cluster's topics: what is created, what is fetched, and what is appended."""
