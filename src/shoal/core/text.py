"""Text that is shown: shortened, and without control characters."""


def shorten(text: str, most: int = 120) -> str:
    """Return `text`, cut to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def printable(text: str) -> str:
    """Return `text` with every unprintable character replaced, so that none can control a terminal."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)
