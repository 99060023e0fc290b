"""File formats: JSON lines, CSV, Parquet."""
