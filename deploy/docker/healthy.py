"""Asks what this container serves: exit code 0 when it answers, or when it serves nothing."""

import os
import sys
from http.client import HTTPConnection, HTTPException

PATIENCE = 4.0  # seconds


def main() -> str | None:
    """Return what is wrong, None if all is well."""
    if metrics := os.environ.get("SHOAL_METRICS"):
        return trouble(int(metrics.rpartition(":")[2]), "/healthz")
    if port := os.environ.get("SHOAL_WEB_PORT"):
        return trouble(int(port), "/healthz")
    return None


def trouble(port: int, path: str) -> str | None:
    """Return what is wrong with a server of this container, None if it answers."""
    # Not by urllib, which would go by a proxy of the environment.
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        status, said = response.status, response.read(200).decode("utf-8", "replace").strip()
    except (OSError, HTTPException) as error:
        return f"port {port} does not answer: {error}"
    finally:
        connection.close()
    return None if status == 200 else f"port {port} answers {status}: {said}"


if __name__ == "__main__":
    sys.exit(main())
