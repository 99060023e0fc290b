"""Opening a fetcher by the name of its engine."""

import subprocess
import sys

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fetch.egress import Egress
from shoal.fetch.http.aiohttp import AioHttpEngine
from shoal.fetch.http.engines import open_engine
from shoal.fetch.http.wreq import WreqEngine
from shoal.registry.extras import install_command


@pytest.mark.parametrize(("engine", "kind"), [("wreq", WreqEngine), ("aiohttp", AioHttpEngine)])
async def test_a_name_opens_its_engine(engine, kind):
    fetcher = open_engine(engine, egress=Egress(), user_agent="shoal")
    assert isinstance(fetcher._engine, kind)
    await fetcher.close()


def test_the_default_is_wreq():
    assert isinstance(open_engine(egress=Egress(), user_agent="shoal")._engine, WreqEngine)


@pytest.mark.parametrize(("name", "hint"), [("aiohtp", "Did you mean 'aiohttp'"), ("curl", "Known: 'wreq'")])
def test_a_wrong_name_is_answered_with_a_hint(name, hint):
    with pytest.raises(InvalidSetting, match=hint):
        open_engine(name, egress=Egress(), user_agent="shoal")


def test_an_engine_that_is_not_installed_says_what_to_type():
    code = (
        "import sys; sys.modules['aiohttp'] = None\n"
        "from shoal.fetch.egress import Egress\n"
        "from shoal.fetch.http.engines import open_engine\n"
        "open_engine(egress=Egress(), user_agent='x')\n"
        "open_engine('aiohttp', egress=Egress(), user_agent='x')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert f"engine 'aiohttp' is not installed. Run: {install_command('aiohttp')}" in done.stderr


def test_without_wreq_a_run_of_aiohttp_works_and_a_call_names_what_is_missing():
    code = (
        "import sys; sys.modules['wreq'] = None\n"
        "from shoal import Scraper\n"
        "from shoal.fleet.ondemand.client import CallClient\n"
        "local = {'robots': False, 'allow_private': '127.0.0.1', 'retries': 0}\n"
        "one = Scraper('one', rate=None, engine='aiohttp', **local)\n"
        "@one.step\n"
        "def page(page): pass\n"
        "print(one.run_sync(['http://127.0.0.1:9/']).dead[0].error)\n"
        "CallClient(None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "127.0.0.1:9" in done.stdout and "needs wreq, which is not installed" in done.stderr, done.stderr
