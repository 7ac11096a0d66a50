"""Topics as Iceberg tables: new records are read from log files, decoded and committed."""
