"""Completion of command lines by shells: the scripts, and the words that these ask for."""
