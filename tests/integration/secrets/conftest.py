"""The hostile origin, and a fetcher for each engine that may ask it."""

from tests.integration.fetch.conftest import certificate, engine, make_fetcher, origin, tls_origin

__all__ = ["certificate", "engine", "make_fetcher", "origin", "tls_origin"]
