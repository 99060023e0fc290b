"""The Python shell: `shoal shell` and `shoal dead shell`."""
