"""Items as rows of a table in PostgreSQL or SQLite."""
