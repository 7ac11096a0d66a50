"""Protobuf schemas: descriptors of source texts, and the rules by which they are compared."""
