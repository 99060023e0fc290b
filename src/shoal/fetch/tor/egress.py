"""The egress of a worker that uses Tor: no direct connections."""

from shoal.core.errors import OutOfScope
from shoal.fetch.egress import AllowedTarget, Egress


class TorEgress(Egress):
    """Allows what may be fetched through Tor, onion services included, and nothing directly."""

    reaches_onions = True

    async def admit(self, url: str) -> AllowedTarget:
        """Refuse: the caller is about to bypass Tor; raises OutOfScope."""
        raise OutOfScope("Direct connections are not allowed in a run that uses Tor")
