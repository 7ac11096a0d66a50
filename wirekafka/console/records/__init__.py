"""Records of topics on their way to visitors: read in pages, searched, followed, saved as files."""
