"""Avro, JSON Schema and Protobuf: parsed by libraries, compared by the rules of registries."""
