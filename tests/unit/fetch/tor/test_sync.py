"""What the workers of a run publish about their Tors, and the renewal requests they receive."""

from shoal.fetch.tor.sync import TorState, TorSync, order_renewal, read_states


class Teller:
    def __init__(self, state=None):
        self.said, self.renewals = state or TorState(True, "it is at 100 %: Done"), 0

    def state(self):
        return self.said

    async def renew_all(self):
        self.renewals += 1


async def test_all_see_how_every_tor_is_doing(queue):
    down = TorState(False, "it died", 3, 1)
    await TorSync(queue, "r", "one").exchange(Teller())
    await TorSync(queue, "r", "two").exchange(Teller(down))
    await TorSync(queue, "other", "three").exchange(Teller())
    states = await read_states(queue, "r")
    assert list(states) == ["one", "two"] and states["two"] == down


async def test_an_order_reaches_every_worker_of_its_run_once(queue):
    boards = [(TorSync(queue, run, name), Teller()) for run, name in (("r", "a"), ("r", "b"), ("other", "c"))]
    for board, teller in boards:
        await board.exchange(teller)
    await order_renewal(queue, "r")
    for _ in range(3):
        for board, teller in boards:
            await board.exchange(teller)
    assert [teller.renewals for _, teller in boards] == [1, 1, 0]
    await order_renewal(queue, "r")
    await boards[0][0].exchange(boards[0][1])
    assert boards[0][1].renewals == 2


async def test_an_order_from_before_a_worker_came_is_not_for_it(queue):
    await order_renewal(queue, "r")
    board, teller = TorSync(queue, "r", "late"), Teller()
    for _ in range(2):
        await board.exchange(teller)
    assert teller.renewals == 0


async def test_what_nobody_can_read_is_passed_over(queue):
    await queue.write_notes("tor r", {"odd": b"\xff", "older": b"{}"})
    assert await read_states(queue, "r") == {}
