"""Opening a fetcher by the name of its engine."""

import subprocess
import sys

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fetch.aio import AioHttpFetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http import HttpFetcher
from shoal.fetch.open import open_fetcher


@pytest.mark.parametrize(("engine", "kind"), [("wreq", HttpFetcher), ("aiohttp", AioHttpFetcher)])
async def test_a_name_opens_its_engine(engine, kind):
    fetcher = open_fetcher(engine, egress=Egress(), user_agent="shoal")
    assert isinstance(fetcher, kind)
    await fetcher.close()


def test_the_default_is_wreq():
    assert isinstance(open_fetcher(egress=Egress(), user_agent="shoal"), HttpFetcher)


@pytest.mark.parametrize(("name", "hint"), [("aiohtp", "did you mean 'aiohttp'"), ("curl", "known are wreq")])
def test_a_wrong_name_is_answered_with_a_hint(name, hint):
    with pytest.raises(InvalidSetting, match=hint):
        open_fetcher(name, egress=Egress(), user_agent="shoal")


def test_an_engine_that_is_not_installed_says_what_to_type():
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from shoal.fetch.egress import Egress\n"
        "from shoal.fetch.open import open_fetcher\n"
        "open_fetcher(egress=Egress(), user_agent='x')\n"
        "open_fetcher('aiohttp', egress=Egress(), user_agent='x')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "engine 'aiohttp' is not installed. Run: pip install 'shoal[aiohttp]'" in done.stderr
