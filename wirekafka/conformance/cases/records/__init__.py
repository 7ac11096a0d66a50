"""Records: Produce, Fetch, and what is known of offsets."""
