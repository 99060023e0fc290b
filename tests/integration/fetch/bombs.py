"""Bodies that are small on the wire and huge in memory."""

import zlib

import brotli

MIB = 1 << 20
ZEROS = bytes(MIB)


def gzip_bomb(mib: int) -> bytes:
    """Return a gzip stream of that many MiB of zeros, about 1 KB each."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    # A full flush leaves no memory behind, so that the same bytes may be repeated.
    block = packer.compress(ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + block * mib + packer.flush()


def deflate_bomb(mib: int) -> bytes:
    """Return the same as a zlib stream."""
    return b"\x78\x9c" + gzip_bomb(mib)[10:]


def brotli_bomb(mib: int) -> bytes:
    """Return a brotli stream of that many MiB of zeros: a few bytes each."""
    packer = brotli.Compressor(quality=1)
    return b"".join(packer.process(ZEROS) for _ in range(mib)) + packer.finish()


def zstd_bomb(mib: int) -> bytes:
    """Return a zstd frame of that many MiB of zeros: blocks that repeat one byte, four bytes each."""
    header = b"\x28\xb5\x2f\xfd" + b"\x00\x68"  # no content size, a window of 8 MiB
    block = (128 << 10) << 3 | 1 << 1  # its size, repeated byte, not the last
    repeat = block.to_bytes(3, "little") + b"\0"
    return header + repeat * (8 * mib) + (1).to_bytes(3, "little")


def chained(mib: int, times: int) -> bytes:
    """Return a bomb that was packed with gzip again and again."""
    body = gzip_bomb(mib)
    for _ in range(times - 1):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        body = packer.compress(body) + packer.flush()
    return body
