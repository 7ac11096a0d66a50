"""Replicated logs, the machine contract, and the runtime that joins them."""
