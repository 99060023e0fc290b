"""A command imports only what it needs: anything else would delay the start of every run."""

import json
import subprocess
import sys

import pytest

from shoal.core.model import Task
from shoal.queue.open import open_queue

LOADS = """
import sys
from shoal.cli.registry import app_for
app_for("run")
import shoal.cli.options.job, shoal.cli.progress, shoal.cli.enqueue_seeds, shoal.cli.options.telemetry
import shoal.cli.commands.crawl.start_notices, shoal.cli.commands.crawl.cache_options
import shoal.fleet.sources.names, shoal.worker.process.forkserver, shoal.fleet.run.launch
import shoal.discover.files.files
ForkServer = shoal.worker.process.forkserver.ForkServer
ForkServer.__init__ = lambda self, *, here: None
from shoal.cli.options.fork_server import fork_server_for
fork_server_for("sqlite:///books.db")
print("\\n".join(sys.modules))
"""
OF_OTHERS = (
    "asyncpg",
    "csv",
    "http",
    "importlib.metadata",
    "pyarrow",
    "pydantic",
    "redis",
    "rich",
    "shoal.cli.commands.crawl.enqueue",
    "shoal.cli.commands.crawl.fleet",
    "shoal.discover.files.records",
    "shoal.discover.files.table",
    "shoal.discover.sitemaps.walk",
    "shoal.export.archive",
    "shoal.export.files.csv",
    "shoal.fleet.run.retention",
    "shoal.queue.postgres",
    "shoal.queue.redis",
    "shoal.worker.ipc.http_server",
    "shoal.worker.ondemand.listener",
    "shoal.worker.recrawl",
    "sysconfig",
    "warcio",
)
# Only the fork server imports them, while this process goes on.
OF_WORKERS = (
    "protego",
    "shoal.fetch.cache",
    "shoal.fetch.contract",
    "shoal.fetch.egress",
    "shoal.fetch.http",
    "shoal.worker.failures.pages",
    "shoal.worker.fetchers",
    "shoal.worker.process.main",
    "shoal.worker.telemetry",
    "shoal.worker.worker",
    "turbohtml",
    "wreq",
)
FORKS = """
import os, sys
from shoal.worker.process.forkserver import ForkServer
def look(self, *, here):
    print("\\n".join(sys.modules), flush=True)
    os._exit(0)
ForkServer.__init__ = look
sys.argv = ["shoal", "run", "books.py", "--url", "https://a.example", "--queue", "sqlite:///books.db"]
from shoal.__main__ import start
start()
"""
SERVES = """
import socket, sys
from shoal.worker.process import forkserver
def look(*_):
    print("\\n".join(sys.modules), flush=True)
forkserver._fork_worker = look
ours, theirs = socket.socketpair()
ours.close()
forkserver._serve(theirs)
"""


def words_of(code):
    """Run code in a process of its own, and return the words that it prints."""
    command = [sys.executable, "-c", code]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.fixture(scope="module")
def loaded():
    return words_of(LOADS)


@pytest.mark.slow
@pytest.mark.parametrize("module", [*OF_OTHERS, *OF_WORKERS])
def test_a_run_on_sqlite_does_not_import(loaded, module):
    assert not {name for name in loaded if name == module or name.startswith(f"{module}.")}


def test_a_run_on_sqlite_has_loaded_its_queue_and_the_event_loop(loaded):
    assert {"shoal.queue.sqlite.queue", "uvloop"} <= loaded


@pytest.fixture(scope="module")
def forked():
    """What the launcher has imported when it forks the fork server."""
    return words_of(FORKS)


def test_what_the_launcher_and_its_workers_need_is_imported_before_the_fork(loaded, served, forked):
    """Else both would import it; only the backend's driver is not among what every fork server imports."""
    assert {"shoal.queue.sqlite.queue", "uvloop"} <= forked
    assert {name for name in loaded & served if name.startswith("shoal.")} - forked == set()


@pytest.mark.parametrize(
    "module", [*OF_OTHERS, *OF_WORKERS, "shoal.cli.commands", "shoal.fleet.run", "typer"]
)
def test_the_fork_server_is_forked_before_the_launcher_imports(forked, module):
    assert not {name for name in forked if name == module or name.startswith(f"{module}.")}


@pytest.mark.slow
@pytest.mark.parametrize("typed", ['"--queue", "redis://localhost"', '"--queue=redis://localhost"'])
def test_the_driver_of_a_typed_queue_is_imported_before_the_fork(typed):
    forked = words_of(FORKS.replace('"--queue", "sqlite:///books.db"', typed))
    assert "redis.asyncio" in forked and "shoal.queue.sqlite.queue" not in forked


@pytest.mark.slow
@pytest.mark.parametrize("word", ["--help", "-h", "--debug", "--nonsense"])
def test_a_command_without_workers_forks_only_if_that_is_not_known(word):
    asks = FORKS.replace('"books.py"', f'"books.py", "{word}"')
    told = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True)
    assert ("shoal.scrape.load" in told.stdout.split()) == (word == "--nonsense")


@pytest.mark.slow
def test_a_fork_server_that_is_not_used_ends_with_the_command():
    ends = (
        "import os, threading",
        "from shoal.cli.options.fork_server import _Early, forked_early",
        "with forked_early(['run'], 'sqlite:///books.db'): pid = _Early.server.pid; os.kill(pid, 0)",
        "[one.join() for one in threading.enumerate() if one is not threading.main_thread()]",
        "try: os.kill(pid, 0)",
        "except ProcessLookupError: print('ended')",
    )
    assert words_of("\n".join(ends)) == {"ended"}


@pytest.mark.slow
@pytest.mark.parametrize("address", ["redis://localhost", "amqp://localhost?state=redis://localhost"])
def test_a_run_on_redis_does_not_import_opentelemetry(address):
    loaded = words_of(LOADS.replace("sqlite:///books.db", address))
    assert "redis.asyncio" in loaded
    assert not {name for name in loaded if name.startswith("opentelemetry")}


def test_a_connection_to_redis_says_the_version_of_the_driver_without_looking_it_up():
    connects = (
        "from shoal.queue.redis.driver import DRIVER, BlockingConnectionPool",
        "import redis, sys",
        "pool = BlockingConnectionPool.from_url('redis://localhost', **DRIVER)",
        "said = pool.make_connection().driver_info",
        "print(said.formatted_name, said.lib_version == redis.__version__)",
        "print(*(name for name in sys.modules if name == 'importlib.metadata'))",
    )
    assert words_of("\n".join(connects)) == {"redis-py", "True"}


def test_redis_py_can_still_collect_metrics_and_look_its_version_up():
    asks = (
        "import shoal.queue.redis.driver",
        "from opentelemetry.metrics import NoOpMeter",
        "from redis.observability.config import OTelConfig",
        "from redis.observability.metrics import RedisMetricsCollector",
        "from redis.utils import get_lib_version",
        "RedisMetricsCollector(NoOpMeter('redis-py'), OTelConfig())",
        "import redis; print(get_lib_version() == redis.__version__)",
    )
    assert words_of("\n".join(asks)) == {"True"}


@pytest.mark.slow
def test_the_opentelemetry_sdk_can_be_imported_after_the_driver_of_redis():
    imports = (
        "import shoal.queue.redis.driver",
        "from opentelemetry.sdk.metrics import MeterProvider",
        "print(MeterProvider.__module__)",
    )
    assert words_of("\n".join(imports)) == {"opentelemetry.sdk.metrics._internal"}


@pytest.fixture(scope="module")
def served():
    return words_of(SERVES)


def test_the_fork_server_has_loaded_what_workers_need_before_it_forks_one(served):
    assert {"shoal.worker.process.main", "shoal.fetch.http.wreq", "wreq", "turbohtml", "uvloop"} <= served


def test_the_fork_server_has_compiled_what_every_worker_uses():
    made_in = "sys.modules['shoal.core.model'].Task.__init__.__module__"
    asks = SERVES.replace('"\\n".join(sys.modules)', made_in)
    told = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert told.stdout == "shoal.core.model.work\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "shoal.cli",
        "shoal.fetch.archive",
        "shoal.fetch.browser",
        "shoal.fetch.proxies",
        "shoal.fetch.sessions",
        "shoal.fetch.tokens",
        "shoal.fetch.tor",
        "shoal.worker.ipc.http_server",
        "shoal.worker.ondemand.listener",
        "shoal.worker.recrawl.store",
        "sysconfig",
    ],
)
def test_the_fork_server_does_not_import(served, module):
    assert not {name for name in served if name == module or name.startswith(f"{module}.")}


@pytest.mark.slow
def test_a_read_only_command_does_not_import_the_parser():
    looks = "import sys, shoal.cli.main, shoal.fleet.status.rows\nprint('turbohtml' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"


async def test_the_status_of_a_run_needs_neither_scrapers_nor_workers(tmp_path):
    address = f"sqlite:///{tmp_path}/books.db"
    async with open_queue(address) as queue:
        await queue.start_run("books", run_id="r1")
        await queue.enqueue("r1", [Task(url="https://a.example/")])
    looks = (
        "import atexit, sys; from shoal.cli.main import main\n"
        f"sys.argv = ['shoal', 'status', 'r1', '--json', '--queue', {address!r}]\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "main()"
    )
    told = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["remaining"] == 1
    needless = (
        "turbohtml",
        "wreq",
        "shoal.scrape.scraper",
        "shoal.worker.process.supervisor",
        "shoal.fleet.run.",
    )
    assert [name for name in told.stderr.split() if name.startswith(needless)] == []


@pytest.mark.slow
def test_a_command_looks_for_no_garbage_among_what_it_has_imported():
    looks = (
        "import atexit, gc, sys; sys.argv = ['shoal', '--version']\n"
        "young = lambda: gc.get_stats()[0]['collections']\n"
        "from shoal.__main__ import start; before = young()\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000, young() - before))\n"
        "start()"
    )
    told = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert told.stdout.endswith("True 0\n")


@pytest.mark.slow
def test_no_command_is_missing_from_the_help():
    help = subprocess.run(
        [sys.executable, "-m", "shoal", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert all(f"\n  {name} " in help for name in ("run", "work", "dead", "bench"))


@pytest.mark.slow
def test_an_unknown_command_gets_a_suggestion():
    typed = subprocess.run([sys.executable, "-m", "shoal", "rnu"], capture_output=True, text=True)
    assert typed.returncode == 2
    assert "run" in typed.stderr
