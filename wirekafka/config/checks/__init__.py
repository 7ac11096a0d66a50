"""Checks of settings: at the start, when they change, and against each other."""
