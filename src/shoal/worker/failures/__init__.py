"""What is recorded of failed steps: their tracebacks and their pages."""
