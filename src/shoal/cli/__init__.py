"""The command line: options, output and exit codes; the work is done in the packages below."""
