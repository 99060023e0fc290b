"""When workers send, by the clock that all processes share.

What a host sees is no measure of a gap: on a busy machine one request arrives late and the next in time.
"""

from itertools import pairwise

# For the top of a scraper: each worker writes the moments that its pacing decides by.
BY_HOST = """
from pathlib import Path
from shoal.worker.prefetch import PrefetchBuffer, host_of

def try_start(self, start, now, *, decide=PrefetchBuffer.try_start, **options):
    is_sent = decide(self, start, now, **options)
    if is_sent:
        with Path(__file__).with_name("sends").open("a") as file:
            file.write(f"{host_of(start.lease)} {now}\\n")
    return is_sent

PrefetchBuffer.try_start = try_start
"""
BY_EXIT = """
from pathlib import Path
from shoal.fetch.proxies.pool import PerExitRate

def record_request(self, proxy, host, recorded=PerExitRate.record_request):
    recorded(self, proxy, host)
    with Path(__file__).with_name("sends").open("a") as file:
        file.write(f"{proxy} {self._last_sent[f'{proxy} {host}']}\\n")

PerExitRate.record_request = record_request
"""


def read_sends(folder):
    """Return the moments of the requests, by host or exit."""
    sends = {}
    for line in (folder / "sends").read_text().splitlines():
        name, at = line.split()
        sends.setdefault(name, []).append(float(at))
    return sends


def gaps_of(moments):
    """Return the seconds between moments that follow each other."""
    return [later - sooner for sooner, later in pairwise(sorted(moments))]
