"""The JSON API, a file for each noun."""
