"""The metadata log's records, the image folded over them, and the controller."""
