"""Topics as Iceberg tables, by pyiceberg (the extra `iceberg`): catalogs, commits, evolution."""
