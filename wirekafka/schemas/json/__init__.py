"""JSON schemas: their dialects and references, and the rules by which they are compared."""
