"""Where items go: files of lines, spreadsheets, Parquet, and tables in databases."""
