"""Opens standard input, output and error where whatever started this program has closed them."""

import os


def open_standard_streams() -> None:
    """Open closed standard streams, or files that got their numbers would be taken for them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
