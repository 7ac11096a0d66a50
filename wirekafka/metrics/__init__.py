"""Counters, histograms and lag as plain numbers, and their text in Prometheus' formats."""
