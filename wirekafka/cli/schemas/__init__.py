"""Schemas on the command line: records decoded and encoded, and the registry's subjects."""
