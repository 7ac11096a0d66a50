"""The table of options and what is read from it."""
