"""Schemas of the records in internal topics, in the metadata log and in control batches."""
