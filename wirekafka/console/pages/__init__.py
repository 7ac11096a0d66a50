"""The pages of the console: one module per kind of page, and the tables that they share."""
