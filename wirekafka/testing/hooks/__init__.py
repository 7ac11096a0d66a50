"""Hooks around requests: fault rules, their subjects, and recorded traffic."""
