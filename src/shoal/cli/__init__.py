"""The command line: words and exit codes; what they do is done below."""
