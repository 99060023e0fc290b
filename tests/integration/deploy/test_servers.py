"""The servers as the Compose file starts them, with the passwords that prepare.sh makes."""

import asyncio
import json
import os
import re
import subprocess
import sys

import pytest

from shoal.core.errors import ShoalError
from shoal.core.model import SECOND, Done, Task
from shoal.queue.open import open_queue
from tests.conftest import or_skip
from tests.integration.deploy.tool import AsDeployed, script
from tests.integration.processes import start_process
from tests.servers.process import free_port
from tests.unit.deploy.files import DEPLOY, compose


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    """What prepare.sh makes."""
    folder = tmp_path_factory.mktemp("compose")
    told = {"PATH": "/usr/bin:/bin", "SHOAL_COMPOSE_FOLDER": str(folder)}
    subprocess.run(["sh", DEPLOY / "compose" / "prepare.sh"], env=told, check=True, capture_output=True)
    return {file.name: file.read_text() for file in (folder / "secrets").iterdir()}


@pytest.fixture(scope="module")
def pooler(postgres, secrets):
    """PgBouncer by the script of its image, in front of the private PostgreSQL."""
    with or_skip(lambda: AsDeployed("pgbouncer")) as server:
        settings = {
            "PGBOUNCER_FOLDER": server.folder,
            "PGBOUNCER_PASSWORD_FILE": server.put("password", secrets["postgres_password"]),
            "PGBOUNCER_SERVER": "127.0.0.1",
            "PGBOUNCER_SERVER_PORT": postgres.port,
            "PGBOUNCER_PORT": server.port,
            "PATH": "/usr/sbin:/usr/bin:/bin",
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        server.start(["env", *words, "sh", server.put("start.sh", script("pgbouncer.sh"))])
        yield server


@pytest.fixture(scope="module")
def redis_as_deployed(secrets):
    """Redis by the command of the Compose file."""
    with or_skip(lambda: AsDeployed("redis-server")) as server:
        conf = str(server.put("redis.conf", secrets["redis.conf"]))
        words = compose()["services"]["redis"]["command"]
        words = [word.replace("/run/secrets/redis.conf", conf) for word in words]
        server.start([*words, "--port", str(server.port), "--bind", "127.0.0.1", "--dir", str(server.folder)])
        yield server


async def one_run(url):
    """Have a task done."""
    async with open_queue(url, patience=5 * SECOND) as queue:
        run = await queue.start_run("books")
        await queue.enqueue(run.id, [Task(payload={"n": 1})])
        (lease,) = (await queue.claim("me", run_id=run.id, limit=1)).leases
        await queue.settle([Done(lease, items=[{"n": 1}])])
        return await queue.stats(run.id), await queue.durability()


async def test_a_queue_works_behind_the_pooler(pooler, secrets, postgres_database):
    password = secrets["postgres_password"]
    stats, _ = await one_run(f"postgresql://shoal:{password}@127.0.0.1:{pooler.port}/{postgres_database}")
    assert stats.completed == 1
    assert "pool_mode = transaction" in (pooler.folder / "pgbouncer.ini").read_text()
    assert (pooler.folder / "userlist.txt").stat().st_mode & 0o077 == 0


async def test_the_pooler_turns_away_who_has_another_password(pooler, postgres_database):
    with pytest.raises(ShoalError):
        await one_run(f"postgresql://shoal:guess@127.0.0.1:{pooler.port}/{postgres_database}")


def test_the_pooler_is_well_without_a_password(pooler):
    words = re.search(
        r"HEALTHCHECK .*CMD (\[\"pg_isready.*\])", (DEPLOY / "docker" / "Dockerfile").read_text()
    )[1]
    assert "6432" in json.loads(words)
    command = [word.replace("6432", str(pooler.port)) for word in json.loads(words)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_the_pooler_says_where_its_password_is_missing(tmp_path):
    told = subprocess.run(
        ["sh", DEPLOY / "docker" / "pgbouncer.sh"],
        env={"PATH": "/usr/bin:/bin", "PGBOUNCER_PASSWORD_FILE": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 2
    assert "PGBOUNCER_PASSWORD_FILE" in told.stderr


async def test_redis_requires_its_password_and_persists_its_data(redis_as_deployed, secrets):
    place = f"127.0.0.1:{redis_as_deployed.port}/0"
    stats, durability = await one_run(f"redis://:{secrets['redis_password']}@{place}")
    assert stats.completed == 1
    assert "a crash can cost the last second" in durability.text
    with pytest.raises(ShoalError):
        await one_run(f"redis://{place}")


def test_redis_is_well_without_a_password(redis_as_deployed):
    kind, line = compose()["services"]["redis"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    there = line.replace("redis-cli", f"redis-cli -p {redis_as_deployed.port}")
    gone = line.replace("redis-cli", f"redis-cli -p {free_port()}")
    codes = [
        subprocess.run(["sh", "-c", one], check=False, capture_output=True).returncode
        for one in (there, gone)
    ]
    assert codes[0] == 0 and codes[1] != 0


@pytest.mark.long
async def test_the_pages_are_well_once_they_answer(tmp_path, secrets):
    token, port = tmp_path / "web_token", str(free_port())
    token.write_text(secrets["web_token"])
    told = os.environ | {
        "SHOAL_WEB_PORT": port,
        "SHOAL_WEB_TOKEN_FILE": str(token),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    _, *words = compose()["services"]["web"]["command"]
    command = ["sh", DEPLOY / "docker" / "entrypoint.sh", sys.executable, "-m", "shoal", *words]
    process = await start_process(*command, cwd=tmp_path, env=told, stderr=asyncio.subprocess.DEVNULL)
    try:
        async with asyncio.timeout(60):
            while await health(SHOAL_WEB_PORT=port):
                assert process.returncode is None
    finally:
        process.terminate()
        await process.wait()
    assert await health(SHOAL_WEB_PORT=port) == 1


async def health(**environment):
    """Return the exit code of the image's health check."""
    check = await start_process(
        sys.executable, DEPLOY / "docker" / "healthy.py", env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    return await check.wait()
