"""The schema registry of a broker under test."""
