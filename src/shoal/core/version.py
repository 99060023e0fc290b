"""Which version of Shoal this is; the package's own metadata is made from this."""

VERSION = "1.0.0"
