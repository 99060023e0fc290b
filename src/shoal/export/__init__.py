"""Item outputs: JSON lines, CSV, Parquet, WARC and database tables."""
