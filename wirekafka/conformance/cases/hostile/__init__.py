"""Hostile input: requests with values that no honest client would send."""
