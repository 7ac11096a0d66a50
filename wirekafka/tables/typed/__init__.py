"""Payloads of a schema as typed Arrow columns, in the types that Iceberg tables have: pure code."""
