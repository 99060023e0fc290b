"""The door of a worker that goes by Tor: nothing is asked directly."""

from shoal.core.errors import OutOfScope
from shoal.fetch.egress import Egress, Target


class TorEgress(Egress):
    """Admits what may be asked by Tor, onion services too, and nothing by any other way."""

    reaches_onions = True

    async def admit(self, url: str) -> Target:
        """Refuse: whoever asks here is about to go around Tor; raises OutOfScope."""
        raise OutOfScope("Nothing is asked directly in a run that goes by Tor")
