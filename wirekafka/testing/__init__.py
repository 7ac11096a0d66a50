"""A broker as a Python object, for tests."""
