"""Avro schemas, as Java's library parses, writes, compares and decodes them."""
