"""Large inputs, made as they are read."""

import gzip
import zlib
from pathlib import Path

HOME = "https://a.test"
MIB = 1 << 20


def write_urls(path: Path, count: int) -> tuple[int, list[int]]:
    """Write 10 % duplicates and 1 % invalid lines; return how many are good, and which lines are not."""
    bad = []
    with path.open("w") as file:
        for number in range(count):
            if number % 100 == 50:
                bad.append(number + 1)
                file.write(f"nonsense {number}\n")
            elif number % 10 == 9:
                file.write(f"{HOME}/{number - 1}\n")
            else:
                file.write(f"{HOME}/{number}\n")
    duplicates = count // 10
    return count - duplicates - len(bad), bad


def sitemap(file: int, urls: int) -> bytes:
    """Return a packed sitemap of so many pages."""
    entries = "".join(
        f"<url><loc>{HOME}/{file}/{number}</loc><lastmod>2026-02-15</lastmod></url>" for number in range(urls)
    )
    return gzip.compress(f"<urlset>{entries}</urlset>".encode(), 1)


def index(files: int) -> bytes:
    """Return an index of so many sitemaps."""
    entries = "".join(f"<sitemap><loc>{HOME}/{number}.xml.gz</loc></sitemap>" for number in range(files))
    return f"<sitemapindex>{entries}</sitemapindex>".encode()


def gzip_bomb(head: bytes, mib: int) -> bytes:
    """Return gzip data that begins with `head` and goes on with so many MiB of blanks, about 1 KB each."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    begun = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    # A full flush leaves no memory behind, so that the same bytes may be repeated.
    block = packer.compress(b" " * MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + begun + block * mib + packer.flush()
