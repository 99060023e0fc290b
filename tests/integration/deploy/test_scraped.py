"""A real Prometheus with our configuration, which asks a real worker and a real `shoal metrics`."""

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from shoal.demo.site import SiteProcess
from tests.conftest import or_skip
from tests.integration.deploy.test_prometheus import PROJECT
from tests.integration.deploy.tool import AsDeployed
from tests.integration.engine.shell import start, typed
from tests.servers.process import free_port
from tests.unit.deploy.files import ALERTS, DEPLOY, documents, queries, rules

# What a run of a few seconds cannot fill: a trend over minutes, and trouble that did not come.
MAY_BE_EMPTY = {
    "ETA A",
    "Tasks completed a minute A",
    "Blocked and put off a second A",
    "Blocked and put off a second B",
    "Leases B",
}


class Prometheus(AsDeployed):
    """Asks the workers and the queue once a second, as deploy/prometheus says otherwise."""

    def __init__(self):
        super().__init__("prometheus")
        self.targets = {"shoal-worker": free_port(), "shoal-queue": free_port()}

    def __enter__(self):
        (plan,) = documents(DEPLOY / "prometheus" / "prometheus.yml")
        plan["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        for job in plan["scrape_configs"]:
            job.pop("dns_sd_configs", None)
            job["static_configs"] = [{"targets": [f"127.0.0.1:{self.targets[job['job_name']]}"]}]
        self.put("alerts.yml", ALERTS.read_text())
        config = self.put("prometheus.yml", yaml.safe_dump(plan))
        self.start(
            [
                self._program,
                f"--config.file={config}",
                f"--storage.tsdb.path={self.folder}/data",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ]
        )
        return self

    async def get(self, path):
        """Return what the API says."""
        return await asyncio.to_thread(self._get, path)

    async def ask(self, expr):
        """Return the samples of a question."""
        return (await self.get(f"query?query={quote(expr)}"))["result"]

    async def until(self, expr):
        """Wait until a question has an answer."""
        async with asyncio.timeout(60):
            while not (found := await self.ask(expr)):
                await asyncio.sleep(0.2)
        return found

    def _get(self, path):
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=30) as answer:
            said = json.load(answer)
        assert said["status"] == "success"
        return said["data"]


@asynccontextmanager
async def running(*words, folder):
    """A command that goes on until the block ends."""
    process = await start(*words, folder=folder)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


@pytest.fixture
def prometheus():
    with or_skip(Prometheus) as server:
        yield server


@pytest.fixture
def folder(tmp_path):
    with SiteProcess(products=200) as site:
        (tmp_path / "shoal.toml").write_text(PROJECT.format(seeds=site.seeds))
        yield tmp_path


@pytest.mark.long
async def test_alerts_and_dashboard_are_filled_by_a_real_run(prometheus, folder):
    ports = prometheus.targets
    serve = ("metrics", "--listen", ports["shoal-queue"])
    work = ("start", "--role", "worker", "--metrics", ports["shoal-worker"])
    async with running(*serve, folder=folder) as metrics, running(*work, folder=folder):
        await prometheus.until('count(up{job=~"shoal-.*"} == 1) == 2')
        told = await typed("start", "--role", "coordinator", "--json", folder=folder)
        completed = str(told.row["completed"])
        await prometheus.until(f'shoal_queue_tasks{{job="shoal-queue", state="completed"}} == {completed}')
        await prometheus.until(
            'sum(shoal_tasks_total{outcome="done"} - shoal_tasks_total{outcome="done"} offset 2s) == 0'
        )
        for where, expr in queries().items():
            found = await prometheus.ask(expr)
            if where not in MAY_BE_EMPTY and not where.startswith("Shoal"):
                assert found, where
        (group,) = (await prometheus.get("rules"))["groups"]
        assert {rule["name"]: rule["health"] for rule in group["rules"]} == {
            rule["alert"]: "ok" for rule in rules()
        }
        metrics.kill()
        (away,) = await prometheus.until('ALERTS{alertname="ShoalQueueAway"}')
        assert away["metric"]["severity"] == "critical"
