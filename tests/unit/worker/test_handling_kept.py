"""A page that is at hand waits for nobody's sake, and counts as no visit."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from shoal import Page, Scraper
from shoal.core.exchange import Response
from shoal.core.model import MINUTE, ZERO, Done, Lease, Release, Run, RunState, Task
from shoal.fetch.cache import CachingFetcher
from shoal.fetch.cache_store import DiskStore
from shoal.worker.handling import Handling, Tools
from shoal.worker.marks import Marks, make_file
from shoal.worker.places import Places
from shoal.worker.room import Room
from shoal.worker.stock import Start
from shoal.worker.tally import Tally

URL = "https://shop.test/"

shop = Scraper("shop", robots=False)


@shop.step
async def page(page: Page):
    yield {"body": page.body.decode()}


class Host:
    def __init__(self):
        self.asked = 0

    async def fetch(self, request):
        self.asked += 1
        return Response(url=request.url, status=200, body=b"%d" % self.asked)

    async def close(self):
        pass


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def marks():
    file = make_file()
    marks = Marks(file)
    os.close(file)
    yield marks
    marks.close()


@pytest.fixture
def handled(host, marks, tmp_path):
    """Handles the page once, in time or too late; returns the outcome."""
    cache = CachingFetcher(
        host, DiskStore(tmp_path, most=1 << 20), user_agent="shoal", lifetime=timedelta(hours=1)
    )
    run = Run(
        id="r",
        scraper="shop",
        settings=shop.run_settings(),
        state=RunState.RUNNING,
        started_at=datetime.now(UTC),
    )
    with ThreadPoolExecutor(1) as threads:

        async def handle(*, in_time=True, attempt=1, robots=None, only_look=False, look=None, room=None):
            tally = Tally()
            tools = Tools({"http": cache}, robots, threads, marks)
            handling = Handling(
                shop,
                run,
                tools,
                tally,
                in_time=lambda start: in_time,
                room=room or Room(),
                places=Places(1, 0, lambda: None),
            )
            lease = Lease(
                run_id="r",
                task_id="0" * 32,
                token=1,
                task=Task(url=URL, step="page"),
                attempt=attempt,
                start_in=ZERO,
                deadline_in=MINUTE,
            )
            if only_look:
                assert handling.may_be_kept(lease)
                return await handling.look(lease, 1), tally
            return await handling.outcome(Start(lease, 0.0), 1, look), tally

        yield handle


async def test_what_is_not_kept_must_be_in_time(handled, host):
    outcome, _ = await handled(in_time=False)
    assert isinstance(outcome, Release) and host.asked == 0


async def test_what_is_kept_is_never_too_late(handled, host):
    await handled()
    outcome, tally = await handled(in_time=False)
    assert isinstance(outcome, Done) and outcome.items == [{"body": "1"}]
    assert (tally.kept, host.asked) == (1, 1)


async def test_a_task_that_is_tried_again_asks_the_host_anew(handled, host):
    await handled()
    outcome, tally = await handled(attempt=2)
    assert (outcome.items, tally.kept, host.asked) == ([{"body": "2"}], 0, 2)
    outcome, _ = await handled()
    assert outcome.items == [{"body": "2"}]


async def test_an_outcome_says_whether_the_host_was_asked(handled):
    assert (await handled())[0].asked
    assert not (await handled())[0].asked
    assert (await handled(attempt=2))[0].asked


async def test_a_task_that_came_too_late_has_spent_its_start(handled):
    outcome, _ = await handled(in_time=False)
    assert isinstance(outcome, Release) and outcome.asked


class Rules:
    """What robots.txt says, as far as it is known."""

    def __init__(self, known):
        self.known, self.asked = known, 0

    async def recall(self, url):
        return self.known

    def is_asking(self, url):
        return False

    async def check(self, url):
        self.asked += not self.known

    def crawl_delay(self, url):
        return None


@pytest.mark.parametrize("known", [True, False])
async def test_a_kept_page_for_which_robots_txt_had_to_be_asked_for_is_a_visit(handled, known):
    await handled()
    rules = Rules(known)
    outcome, tally = await handled(robots=rules)
    assert (tally.kept, outcome.asked, rules.asked) == (1, not known, int(not known))


async def test_a_look_before_the_start_finds_the_page_and_asks_nobody(handled, host):
    await handled()
    look, tally = await handled(only_look=True)
    assert look.page.body == b"1" and host.asked == 1
    outcome, tally = await handled(look=look, in_time=False)
    assert (outcome.items, outcome.asked, tally.kept) == ([{"body": "1"}], False, 1)


async def test_a_look_before_the_start_does_not_ask_for_robots_txt(handled):
    await handled()
    rules = Rules(known=False)
    look, _ = await handled(only_look=True, robots=rules)
    assert look is None and rules.asked == 0


async def test_a_page_that_a_look_has_found_takes_room_until_it_is_let_go(handled):
    await handled()
    room = Room()
    await handled(only_look=True, room=room)
    assert room.used == 1
    await handled(look=(await handled(only_look=True, room=room))[0], room=room)
    assert room.used == 0


async def test_robots_txt_takes_the_turn_of_the_task_that_needs_it(handled, host):
    rules = Rules(known=False)
    outcome, _ = await handled(robots=rules)
    assert isinstance(outcome, Release) and outcome.asked
    assert (rules.asked, host.asked) == (1, 0)
    outcome, _ = await handled(robots=Rules(known=True))
    assert isinstance(outcome, Done) and host.asked == 1


async def test_robots_txt_is_not_asked_for_when_the_turn_has_passed(handled):
    rules = Rules(known=False)
    outcome, _ = await handled(robots=rules, in_time=False)
    assert isinstance(outcome, Release) and rules.asked == 0


async def test_a_task_that_waits_for_the_robots_txt_of_another_keeps_its_own_turn(handled, host):
    rules = Rules(known=False)
    rules.is_asking = lambda url: True
    outcome, _ = await handled(robots=rules)
    assert isinstance(outcome, Done) and host.asked == 1
