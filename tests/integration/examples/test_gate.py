"""The gate of a site: it counts from when it was told to hold, and what waited goes on when it opens."""

import asyncio

from examples.common.gate import Gate


async def serve(gate, number, served):
    await gate.enter()
    served.append(number)
    gate.count(is_gated=True)


async def test_pages_wait_after_as_many_as_were_wanted_until_they_may_go():
    gate, served = Gate(), []
    gate.obey("hold 2")
    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(serve(gate, number, served))
        await asyncio.sleep(0)
        assert served == [0, 1]
        gate.obey("go")
    assert served == [0, 1, 2, 3, 4]


async def test_pages_that_were_served_before_do_not_count(capsys):
    gate, served = Gate(), []
    for number in range(9):
        await serve(gate, number, served)
    gate.obey("hold 3")
    gate.obey("tell 3")
    for number in range(3):
        assert not capsys.readouterr().out
        await serve(gate, number, served)
    assert capsys.readouterr().out == "served 3\n"
