"""Which follow-up tasks pass, and what is remembered of those that did."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

from shoal.core.ask import Ask
from shoal.core.model import Task
from shoal.scrape.budgets import CALENDAR, FACETS, PAIRS, VALUE_BITS, VARIANTS, Budgets
from shoal.scrape.gate import MAX_NAMES, OTHER_TRAPS, SECRETS_ELSEWHERE, UNENCRYPTED, Gate
from shoal.scrape.mazes import BARREN, MAX_FOLDERS, PER_PAGE, Mazes
from shoal.scrape.seen import LATELY, Seen
from shoal.scrape.settings import ScraperSettings
from shoal.scrape.sketch import Sketch

HOME = "https://a.test/"


def gate_of(**settings):
    return Gate(ScraperSettings.read(**settings), today=lambda: date(2026, 6, 1))


def admit(gate, urls, *, page=HOME, items=(), step="s", depth=1):
    """Return which of the URLs of a page pass, and what was dropped."""
    dropped = Counter()
    tasks = [Task(url=url, step=step, depth=depth) for url in urls]
    passed = gate.admit(tasks, Task(url=page, step="s"), list(items), dropped)
    return [task.url for task in passed], dropped


def test_depth_scope_and_traps_are_counted_apart():
    gate = gate_of(max_depth=3)
    assert admit(gate, [HOME + "x"], depth=3) == ([HOME + "x"], {})
    assert admit(gate, [HOME + "y"], depth=4) == ([], {"too deep": 1})
    assert admit(gate, ["https://b.test/"]) == ([], {"out of scope": 1})
    assert admit(gate, [HOME + "x/a/a/a"]) == ([], {"trap: a.test/x/ (repeating paths)": 1})


SECRET = {"Authorization": "Bearer x"}
OLD = "http://a.test/old"


def test_secret_headers_stay_within_https():
    """Or whoever listens to an old link that a page still has would hear them."""
    gate = gate_of(headers=SECRET, scope="any")
    assert admit(gate, [OLD, "http://b.test/x"]) == (["https://a.test/old", "https://b.test/x"], {})
    assert admit(gate, ["http://a.test:8080/", "http://[::1]:81/"]) == ([], {UNENCRYPTED: 2})
    assert admit(gate, ["http://[::1]/"]) == (["https://[::1]/"], {})
    assert admit(gate_of(headers=SECRET), [OLD]) == (["https://a.test/old"], {})
    assert admit(gate_of(headers=SECRET, scope="https://a.test/*"), [OLD]) == (["https://a.test/old"], {})


def test_without_secrets_and_where_http_was_typed_a_link_is_what_it_is():
    assert admit(gate_of(headers={"Accept": "text/html"}), [OLD]) == ([OLD], {})
    assert admit(gate_of(headers=SECRET), [OLD], page="http://a.test/") == ([OLD], {})
    assert admit(gate_of(headers=SECRET), [OLD], page=None) == ([OLD], {})
    for scope in (["https://a.test/*", "http://a.test/*"], "re:^http://a\\.test/"):
        assert admit(gate_of(headers=SECRET, scope=scope), [OLD]) == ([OLD], {})


def test_the_secret_headers_of_a_task_stay_within_https_too():
    ask = Ask(post=b"x", headers={"X-Api-Key": "x"})
    tasks = [Task(url=OLD, step="s", depth=1, ask=ask), Task(url=OLD, step="s", depth=1)]
    passed = gate_of().admit(tasks, Task(url=HOME, step="s"), [], Counter())
    assert [task.url for task in passed] == ["https://a.test/old", OLD]


def test_a_task_that_the_step_made_itself_is_no_link_and_may_go_to_another_host():
    gate = gate_of()
    assert admit(gate, ["https://b.test/"], depth=0) == (["https://b.test/"], {})
    gate = gate_of(scope="https://a.test/*")
    assert admit(gate, ["https://b.test/"], depth=0) == (["https://b.test/"], {})


def test_a_task_that_would_take_secret_headers_out_of_scope_is_dropped_by_name():
    gate = gate_of(headers=SECRET)
    assert admit(gate, ["https://b.test/"], depth=0) == ([], {SECRETS_ELSEWHERE: 1})
    gate = gate_of(headers=SECRET, scope=["https://a.test/*", "https://b.test/*"])
    assert admit(gate, ["https://b.test/"], depth=0) == (["https://b.test/"], {})


def test_of_the_links_that_are_not_followed_one_is_kept_as_an_example_for_each_reason():
    gate = gate_of(max_depth=3)
    admit(gate, ["https://b.test/1?token=secret", "https://b.test/2"])
    admit(gate, [HOME + "y"], depth=4)
    assert gate.examples == {"out of scope": "https://b.test/1", "too deep": HOME + "y"}


def test_a_session_id_is_taken_out_of_the_task():
    gate = gate_of()
    assert admit(gate, [HOME + "x;jsessionid=1", HOME + "x?PHPSESSID=2&b=1"]) == (
        [HOME + "x", HOME + "x?b=1"],
        {},
    )


def test_filters_in_ever_new_combinations_are_cut_and_named():
    urls = [f"{HOME}f?a={a}&b={b}&c={c}" for a in range(10) for b in range(10) for c in range(10)]
    passed, dropped = admit(gate_of(), urls)
    assert FACETS <= len(passed) < 2 * FACETS
    assert dropped == {"trap: a.test (filters)": 1000 - len(passed)}


@pytest.mark.long
def test_a_parameter_that_enumerates_pages_is_not_cut():
    gate = gate_of()
    urls = [f"{HOME}viewtopic.php?f={n % 7}&t={n}&start={s}" for n in range(1_500) for s in (0, 20)]
    assert admit(gate, urls) == (urls, {})
    urls = [f"{HOME}list?cat={cat}&page={page}" for cat in range(200) for page in range(25)]
    assert admit(gate, urls) == (urls, {})
    urls = [f"{HOME}product/{n}" for n in range(60_000)]
    assert admit(gate, urls) == (urls, {})
    urls = [f"{HOME}index.php?id={n}" for n in range(5_000)]
    assert admit(gate, urls) == (urls, {})


def test_two_parameters_of_few_values_are_cut_late():
    urls = [f"{HOME}x?a={a}&b={b}" for a in range(100) for b in range(100)]
    passed, dropped = admit(gate_of(), urls)
    assert PAIRS < len(passed) < 10_000
    assert set(dropped) == {"trap: a.test/x?"}


def test_sorted_views_and_calendars_are_cut():
    views = [f"{HOME}cat/{n}?sort=price" for n in range(500)]
    passed, dropped = admit(gate_of(), views)
    assert len(passed) == VARIANTS
    assert dropped == {"trap: a.test/cat/ (sorted and printed views)": 500 - VARIANTS}
    days = [f"{HOME}calendar/2026/{m:02}/{d:02}" for m in range(1, 13) for d in range(1, 29)]
    passed, dropped = admit(gate_of(), days)
    assert len(passed) == CALENDAR
    assert dropped == {"trap: a.test/calendar/ (calendar)": 336 - CALENDAR}


def test_links_that_were_let_in_pass_again_and_cost_nothing():
    gate = gate_of()
    views = [f"{HOME}cat/{n}?sort=price" for n in range(VARIANTS)]
    for _ in range(5):
        assert admit(gate, views) == (views, {})
    assert admit(gate, [f"{HOME}cat/x?sort=price"])[0] == []


def test_the_user_may_set_one_budget_for_every_pattern():
    gate = gate_of(max_per_pattern=10)
    passed, dropped = admit(gate, [f"{HOME}product/{n}" for n in range(50)])
    assert len(passed) == 10
    assert dropped == {"trap: a.test/product/#": 40}
    gate = gate_of(max_per_pattern=10_000)
    urls = [f"{HOME}f?a={a}&b={b}&c={c}" for a in range(10) for b in range(10) for c in range(10)]
    assert admit(gate, urls) == (urls, {})


def test_only_so_many_traps_are_named():
    gate = gate_of()
    urls = [f"{HOME}{chr(97 + n // 26)}{chr(97 + n % 26)}/a/a/a" for n in range(100)]
    _, dropped = admit(gate, urls)
    assert len(dropped) == MAX_NAMES + 1
    assert dropped[OTHER_TRAPS] == 100 - MAX_NAMES


def wander(gate, pages, *, page="https://a.test/maze/{}", links=10, items=()):
    """Handle pages of a maze, each of which links to ten others; return how many links were followed."""
    followed = 0
    for number in range(pages):
        urls = [page.format(f"{number}x{link}") for link in range(links)]
        followed += len(admit(gate, urls, page=page.format(number), items=items)[0])
    return followed


def test_pages_that_give_nothing_and_lead_only_to_their_like_are_a_maze():
    gate = gate_of()
    admit(gate, [], page=HOME + "p", items=[{"title": "real"}])
    assert wander(gate, 100) == BARREN
    dropped = admit(gate, [HOME + "maze/new"], page=HOME + "maze/1")[1]
    assert dropped == {"trap: a.test/maze/ (nothing new)": 1}


def test_where_nothing_ever_gives_an_item_nothing_is_called_a_maze():
    assert wander(gate_of(), 100) == 1000


def test_a_page_that_gives_a_new_item_opens_its_part_again():
    gate = gate_of()
    admit(gate, [], page=HOME + "p", items=[{"title": "real"}])
    wander(gate, 100)
    admit(gate, [], page=HOME + "maze/1", items=[{"title": "there was something"}])
    assert admit(gate, [HOME + "maze/more"], page=HOME + "maze/2")[0] == [HOME + "maze/more"]


def test_an_item_that_differs_only_in_its_address_is_nothing_new():
    gate = gate_of()
    for number in range(100):
        item = {"title": "Not found", "url": f"{HOME}maze/{number}"}
        links = [f"{HOME}maze/{number}x{link}" for link in range(10)]
        passed, _ = admit(gate, links, page=f"{HOME}maze/{number}", items=[item])
    assert passed == []


def test_a_link_for_another_step_or_to_another_part_is_of_use():
    gate = gate_of()
    admit(gate, [], page=HOME + "p", items=[{"title": "real"}])
    for number in range(100):
        page = f"{HOME}list/{number}"
        assert len(admit(gate, [f"{HOME}list/{number}x{link}" for link in range(10)], page=page)[0]) == 10
        admit(gate, [f"{HOME}list/book{number}"], page=page, step="book")


def test_a_long_list_passes_whole():
    gate = gate_of()
    admit(gate, [], page=HOME + "p", items=[{"title": "real"}])
    urls = [f"{HOME}p/item-{n}" for n in range(10_000)]
    assert admit(gate, urls, page=HOME + "p/all") == (urls, {})
    assert PER_PAGE < BARREN


def test_a_refused_link_does_not_pass_at_the_second_try():
    gate = gate_of()
    admit(gate, [], page=HOME + "p", items=[{"title": "real"}])
    wander(gate, 100)
    for _ in range(3):
        assert admit(gate, [HOME + "maze/again"], page=HOME + "maze/1")[0] == []


def test_made_up_folders_are_one_part_in_the_end():
    mazes = Mazes()
    parts = {mazes.part_of(f"https://a.test/w{chr(97 + n % 26)}{chr(97 + n // 26)}/x") for n in range(500)}
    assert len(parts) == MAX_FOLDERS + 1
    assert "a.test/*/" in parts


def test_many_threads_share_one_budget():
    gate = gate_of()
    with ThreadPoolExecutor(8) as pool:
        pages = [[f"{HOME}cat/{n}x{m}?sort=a" for n in range(50)] for m in range(40)]
        passed = sum(len(urls) for urls, _ in pool.map(lambda urls: admit(gate, urls), pages))
    assert passed == VARIANTS


def test_tasks_without_a_url_pass_by_depth_alone():
    gate = gate_of(max_depth=1)
    dropped = Counter()
    parent = Task(payload={"a": 1}, step="s")
    assert len(gate.admit([Task(payload={"b": 1}, step="s")], parent, [], dropped)) == 1
    assert gate.admit([Task(payload={"b": 1}, step="s", depth=2)], parent, [], dropped) == []
    assert dropped == {"too deep": 1}


def test_what_is_remembered_is_bounded():
    seen = Seen()
    assert seen.add("a") and not seen.add("a") and "a" in seen
    for number in range(5 * LATELY):
        seen.add(number)
    assert len(seen._now) + len(seen._before) <= 2 * LATELY
    assert "a" not in seen
    assert seen.add(5 * LATELY - 1) is False


def test_the_number_of_values_is_estimated_well_enough():
    for true in (1, 10, 100, 1_000, 5_000):
        values = Sketch(VALUE_BITS, b"key")
        for number in range(true):
            values.add(f"value {number}")
            values.add(f"value {number}")
        assert 0.8 * true <= values.number <= 1.2 * true


def test_budgets_are_bounded_however_many_kinds_there_are():
    budgets = Budgets(5)
    gate = gate_of(max_per_pattern=5)
    gate._budgets = budgets
    admit(
        gate,
        [
            f"{HOME}{chr(97 + a)}{chr(97 + b)}{chr(97 + c)}"
            for a in range(20)
            for b in range(20)
            for c in range(10)
        ],
    )
    assert len(budgets._budgets) <= 2_000


def test_what_a_step_sends_is_bound_by_scope_and_depth_and_by_no_trap():
    gate, dropped = gate_of(max_depth=3), Counter()

    def passed(url, depth=1):
        tasks = [Task(url=url, step="s", depth=depth, ask=Ask.json({"page": page})) for page in range(3_000)]
        return len(gate.admit(tasks, Task(url=HOME, step="s"), [], dropped))

    assert passed(HOME + "x/a/a/a?sort=1&filter=2") == 3_000 and not dropped
    assert passed("https://b.test/") == passed(HOME, depth=4) == 0
    assert dropped == {"out of scope": 3_000, "too deep": 3_000}
