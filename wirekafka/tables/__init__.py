"""Record batches as Arrow record batches (pyarrow and numpy, by the extra `tables`): pure code."""
