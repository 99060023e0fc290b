"""Private hosts that a run does not allow are recorded until it does."""

from shoal.fleet.command_hints import command_to_resume
from shoal.fleet.run.lifecycle import purge
from shoal.worker.run_settings import (
    StoredSettings,
    note_private_hosts,
    private_hosts_to_allow,
    write_settings,
)

URL = "sqlite:///shoal.db"


async def test_the_command_that_resumes_a_run_allows_the_hosts_that_were_refused_until_the_run_does(queue):
    run = await queue.start_run("shop", run_id="r1")
    assert await command_to_resume(queue, URL, run) == "shoal run shop --resume r1"
    await note_private_hosts(queue, "r1", ["10.0.0.1:80"])
    await note_private_hosts(queue, "r1", ["10.0.0.1:80", "intranet"])
    assert await command_to_resume(queue, URL, run) == (
        "shoal run shop --resume r1 --allow-private 10.0.0.1:80 --allow-private intranet"
    )
    await write_settings(queue, "r1", StoredSettings(values={"allow_private": ["10.0.0.1"]}))
    assert await private_hosts_to_allow(queue, "r1") == ["intranet"]
    await purge(queue, "r1")
    assert await private_hosts_to_allow(queue, "r1") == []
