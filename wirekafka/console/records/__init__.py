"""Records of topics on their way to visitors: as they come, as columns, as files."""
