"""Tests of the client of the commands and the registry."""
