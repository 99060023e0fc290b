"""The autoscaler, one decision at a time."""

from shoal.core.model import SECOND, RunSettings, Task
from shoal.fleet.scale.autoscaler import Autoscaler
from shoal.fleet.scale.decide import ScaleBounds
from shoal.fleet.scale.local import NoWorkers
from shoal.worker.run_settings import StoredSettings, write_settings


async def test_the_pace_follows_the_pause_of_the_run_while_it_changes(queue):
    run = await queue.start_run("pages", settings=RunSettings(host_delay=SECOND / 5), run_id="r")
    await queue.enqueue(run.id, [Task(url=f"https://a.example/{number}") for number in range(1000)])
    scaler = Autoscaler(queue, run.id, NoWorkers(), ScaleBounds(most=100))
    assert (await scaler.step()).load.most_useful == 1
    for settings in (
        StoredSettings(defaults={"pause": "8-20s"}),
        StoredSettings(defaults={"pause": None}, values={"pause": "8-20s"}),
    ):
        await write_settings(queue, run.id, settings)
        assert (await scaler.step()).load.most_useful == 4  # as many leases as the host may have
    await write_settings(queue, run.id, StoredSettings(defaults={"pause": "8-20s"}, values={"pause": None}))
    assert (await scaler.step()).load.most_useful == 1
