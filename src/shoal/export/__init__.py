"""Where items go: files of lines, spreadsheets and Parquet."""
