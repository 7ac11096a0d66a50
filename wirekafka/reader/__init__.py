"""A log without a broker: directories, tiers and brokers, read as Arrow record batches."""
