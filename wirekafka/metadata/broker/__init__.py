"""A broker's side of the metadata: its feed, its registration, and the published image."""
