"""Quotas as pure code: rates over windows, token buckets, and which quota applies to a client.

Nothing here reads a clock or waits: times are arguments, and a throttle time is a result.
"""
