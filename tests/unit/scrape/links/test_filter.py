"""Which follow-up tasks pass the link filter, and what it remembers of them."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

from shoal.core.model import Task
from shoal.core.request_options import RequestOptions
from shoal.scrape.links import budgets as limits
from shoal.scrape.links.budgets import VALUE_BITS, ShapeBudgets
from shoal.scrape.links.filter import MAX_REPORTED, OTHER_TRAPS, SECRETS_ELSEWHERE, UNENCRYPTED, LinkFilter
from shoal.scrape.links.mazes import MAX_FOLDERS, WINDOW, Mazes
from shoal.scrape.links.seen import MIN_REMEMBERED, SeenLinks
from shoal.scrape.links.shape import url_parts
from shoal.scrape.links.sketch import Sketch
from shoal.scrape.settings.scraper import ScraperSettings

HOME = "https://a.test/"


def make_filter(**settings):
    return LinkFilter(ScraperSettings.read(**settings), today=lambda: date(2026, 6, 1))


@pytest.fixture
def small_budgets(monkeypatch):
    """Make every budget small enough for a short test."""
    small = {"ENDLESS": 10, "RECURRING": 20, "CALENDAR": 50, "VARIANTS": 100, "PAIRS": 500, "FACETS": 300}
    for name, limit in (small | {"MAZE": 30, "PAGING": 100, "PER_PAGE": 0}).items():
        monkeypatch.setattr(limits, name, limit)
    monkeypatch.setattr("shoal.scrape.links.mazes.WINDOW", 20)


def pass_links(link_filter, urls, *, page=HOME, step="s", depth=1, at=None):
    """Return the URLs of a page that pass, and the skipped ones by reason."""
    dropped = Counter()
    tasks = [Task(url=url, step=step, depth=depth) for url in urls]
    parent = Task(url=page, step="s", depth=max(0, depth - 1) if at is None else at)
    passed = link_filter.filter(tasks, parent, dropped)
    return [task.url for task in passed], dropped


def test_depth_scope_and_traps_are_counted_apart(small_budgets):
    link_filter = make_filter(max_depth=3)
    assert pass_links(link_filter, [HOME + "x"], step="t", depth=3) == ([HOME + "x"], {})
    assert pass_links(link_filter, [HOME + "y"], step="t", depth=4) == ([], {"too deep": 1})
    assert pass_links(link_filter, ["https://b.test/"]) == ([], {"out of scope": 1})
    urls = [f"{HOME}x/a/a/a/{number}" for number in range(11)]
    assert pass_links(link_filter, urls) == (urls[:10], {"trap: a.test (repeating paths)": 1})


def test_a_link_that_is_queued_already_is_not_too_deep():
    link_filter = make_filter(max_depth=3)
    pass_links(link_filter, [HOME + "x"], step="t", depth=3)
    assert pass_links(link_filter, [HOME + "x"], step="t", depth=4) == ([HOME + "x"], {})


def test_links_to_skip_are_counted_and_the_rules_can_change_while_it_works():
    link_filter = make_filter(skip=f"{HOME}calendar/*", max_depth=1)
    urls = [f"{HOME}calendar/1", f"{HOME}b"]
    assert pass_links(link_filter, urls) == ([f"{HOME}b"], {"setting skip": 1})
    link_filter.change_settings(ScraperSettings.read(max_depth=5))
    assert pass_links(link_filter, [f"{HOME}calendar/1"], depth=4) == ([f"{HOME}calendar/1"], {})


SECRET = {"Authorization": "Bearer x"}
OLD = "http://a.test/old"


def test_secret_headers_stay_within_https():
    """Otherwise an old http link on a page would send them unencrypted."""
    link_filter = make_filter(headers=SECRET, scope="any")
    assert pass_links(link_filter, [OLD, "http://b.test/x"]) == (
        ["https://a.test/old", "https://b.test/x"],
        {},
    )
    assert pass_links(link_filter, ["http://a.test:8080/", "http://[::1]:81/"]) == ([], {UNENCRYPTED: 2})
    assert pass_links(link_filter, ["http://[::1]/"]) == (["https://[::1]/"], {})
    assert pass_links(make_filter(headers=SECRET), [OLD]) == (["https://a.test/old"], {})
    assert pass_links(make_filter(headers=SECRET, scope="https://a.test/*"), [OLD]) == (
        ["https://a.test/old"],
        {},
    )


def test_without_secrets_and_where_http_was_typed_a_link_is_what_it_is():
    assert pass_links(make_filter(headers={"Accept": "text/html"}), [OLD]) == ([OLD], {})
    assert pass_links(make_filter(headers=SECRET), [OLD], page="http://a.test/") == ([OLD], {})
    assert pass_links(make_filter(headers=SECRET), [OLD], page=None) == ([OLD], {})
    for scope in (["https://a.test/*", "http://a.test/*"], "re:^http://a\\.test/"):
        assert pass_links(make_filter(headers=SECRET, scope=scope), [OLD]) == ([OLD], {})


def test_the_secret_headers_of_a_task_stay_within_https_too():
    ask = RequestOptions(post=b"x", headers={"X-Api-Key": "x"})
    tasks = [Task(url=OLD, step="s", depth=1, request=ask), Task(url=OLD, step="s", depth=1)]
    passed = make_filter().filter(tasks, Task(url=HOME, step="s"), Counter())
    assert [task.url for task in passed] == ["https://a.test/old", OLD]


def test_a_task_that_the_step_made_itself_is_no_link_and_may_go_to_another_host():
    link_filter = make_filter()
    assert pass_links(link_filter, ["https://b.test/"], depth=0) == (["https://b.test/"], {})
    link_filter = make_filter(scope="https://a.test/*")
    assert pass_links(link_filter, ["https://b.test/"], depth=0) == (["https://b.test/"], {})


def test_a_task_that_would_take_secret_headers_out_of_scope_is_dropped_by_name():
    link_filter = make_filter(headers=SECRET)
    assert pass_links(link_filter, ["https://b.test/"], depth=0) == ([], {SECRETS_ELSEWHERE: 1})
    link_filter = make_filter(headers=SECRET, scope=["https://a.test/*", "https://b.test/*"])
    assert pass_links(link_filter, ["https://b.test/"], depth=0) == (["https://b.test/"], {})


def test_of_the_links_that_are_not_followed_one_is_kept_as_an_example_for_each_reason():
    link_filter = make_filter(max_depth=3)
    pass_links(link_filter, ["https://b.test/1?token=secret", "https://b.test/2"])
    pass_links(link_filter, [HOME + "y"], step="t", depth=4)
    assert link_filter.examples == {"out of scope": "https://b.test/1", "too deep": HOME + "y"}


def test_a_session_id_is_taken_out_of_the_task():
    link_filter = make_filter()
    assert pass_links(link_filter, [HOME + "x;jsessionid=1", HOME + "x?PHPSESSID=2&b=1"]) == (
        [HOME + "x", HOME + "x?b=1"],
        {},
    )


def test_filters_in_ever_new_combinations_are_cut_and_named(small_budgets):
    urls = [f"{HOME}f?a={a}&b={b}&c={c}" for a in range(10) for b in range(10) for c in range(10)]
    passed, dropped = pass_links(make_filter(), urls)
    assert limits.FACETS <= len(passed) < 2 * limits.FACETS
    assert dropped == {"trap: a.test (filters)": 1000 - len(passed)}


@pytest.mark.long
def test_a_parameter_that_enumerates_pages_is_not_cut():
    link_filter = make_filter()
    urls = [f"{HOME}viewtopic.php?f={n % 7}&t={n}&start={s}" for n in range(1_500) for s in (0, 20)]
    assert pass_links(link_filter, urls) == (urls, {})
    urls = [f"{HOME}list?cat={cat}&page={page}" for cat in range(200) for page in range(25)]
    assert pass_links(link_filter, urls) == (urls, {})
    urls = [f"{HOME}product/{n}" for n in range(60_000)]
    assert pass_links(link_filter, urls) == (urls, {})
    urls = [f"{HOME}index.php?id={n}" for n in range(5_000)]
    assert pass_links(link_filter, urls) == (urls, {})


def test_two_parameters_of_few_values_are_cut_late(small_budgets):
    urls = [f"{HOME}x?a={a}&b={b}" for a in range(100) for b in range(100)]
    passed, dropped = pass_links(make_filter(), urls)
    assert limits.PAIRS < len(passed) < 10_000
    assert set(dropped) == {"trap: a.test/x?"}


def test_sorted_views_and_calendars_are_cut(small_budgets):
    views = [f"{HOME}cat/{n}?sort=price" for n in range(500)]
    passed, dropped = pass_links(make_filter(), views)
    assert len(passed) == limits.VARIANTS
    assert dropped == {"trap: a.test/cat/ (sorted and printed views)": 500 - limits.VARIANTS}
    days = [f"{HOME}calendar/2026/{m:02}/{d:02}" for m in range(1, 13) for d in range(1, 29)]
    passed, dropped = pass_links(make_filter(), days)
    assert len(passed) == limits.CALENDAR
    assert dropped == {"trap: a.test/calendar/ (calendar)": 336 - limits.CALENDAR}


def test_links_that_were_let_in_pass_again_and_cost_nothing(small_budgets):
    link_filter = make_filter()
    views = [f"{HOME}cat/{n}?sort=price" for n in range(limits.VARIANTS)]
    for _ in range(5):
        assert pass_links(link_filter, views) == (views, {})
    assert pass_links(link_filter, [f"{HOME}cat/x?sort=price"])[0] == []


def test_the_user_may_set_one_budget_for_every_pattern():
    link_filter = make_filter(max_per_pattern=10)
    passed, dropped = pass_links(link_filter, [f"{HOME}product/{n}" for n in range(50)])
    assert len(passed) == 10
    assert dropped == {"trap: a.test/product/#": 40}
    link_filter = make_filter(max_per_pattern=10_000)
    urls = [f"{HOME}f?a={a}&b={b}&c={c}" for a in range(10) for b in range(10) for c in range(10)]
    assert pass_links(link_filter, urls) == (urls, {})


def test_only_so_many_traps_are_named(small_budgets):
    link_filter = make_filter()
    urls = [f"{HOME}{chr(97 + n)}/{m}?sort=a" for n in range(MAX_REPORTED + 5) for m in range(101)]
    _, dropped = pass_links(link_filter, urls)
    assert len(dropped) == MAX_REPORTED + 1
    assert dropped[OTHER_TRAPS] == 5


def wander(link_filter, pages, *, more=(), step="s"):
    """Handle pages of a maze, each with ten new links and `more`; return how many new ones were followed."""
    followed = 0
    for number in range(pages):
        urls = [f"{HOME}maze/{number}x{link}" for link in range(10)]
        known = [one.format(number - 1) for one in more if number]
        passed, _ = pass_links(link_filter, urls + known, page=f"{HOME}maze/{number}", step=step, depth=1)
        followed += len([url for url in passed if url in urls])
    return followed


def test_pages_that_lead_only_to_pages_that_no_other_links_to_are_a_maze(small_budgets):
    link_filter = make_filter()
    # A window of pages, of which the last is the first that counts.
    assert wander(link_filter, 100) == 10 * (20 + limits.MAZE)
    reason = "trap: a.test/maze/ (maze of step s)"
    passed, dropped = pass_links(link_filter, [HOME + "maze/new", HOME + "else/new"], page=HOME + "maze/1")
    assert passed == [HOME + "else/new"] and dropped == {reason: 1}
    assert pass_links(link_filter, [HOME + "maze/new"], step="other", page=HOME + "maze/1")[1] == {}
    assert link_filter.mazes == {("s", "a.test/maze/")}


def test_what_is_queued_of_a_maze_is_not_visited_any_more(small_budgets):
    link_filter, other = make_filter(), make_filter()
    queued = Task(url=f"{HOME}maze/1x1?token=secret", step="s", depth=2)
    assert link_filter.find_maze(queued) is None
    wander(link_filter, 100)
    other.add_mazes(link_filter.mazes)
    for one in (link_filter, other):
        reason = one.find_maze(queued)
        assert reason == "trap: a.test/maze/ (maze of step s)" and one.examples[reason]
        assert "secret" not in one.examples[reason]
        assert one.find_maze(Task(url=queued.url, step="s")) is None, "a seed was typed by the user"
        assert one.find_maze(Task(url=queued.url, step="other", depth=2)) is None
        assert one.find_maze(Task(url=HOME + "else/1", step="s", depth=2)) is None
        post = RequestOptions.json({"page": 1})
        assert one.find_maze(Task(url=queued.url, step="s", depth=2, request=post)) is None


def test_pages_that_are_linked_from_several_others_are_no_maze(small_budgets):
    assert wander(make_filter(), 200, more=["https://a.test/maze/{}x3"]) == 2_000


def test_a_link_of_a_page_to_itself_or_back_to_where_it_was_found_tells_nothing(small_budgets):
    link_filter, followed = make_filter(max_depth=10**6), 0
    for depth in range(1, 100):
        urls = [f"{HOME}maze/{depth + 1}x{link}" for link in range(10)]
        back = [f"{HOME}maze/{depth - 1}x1", f"{HOME}maze/{depth}x1"]
        page = f"{HOME}maze/{depth}x1"
        passed, _ = pass_links(link_filter, urls + back, page=page, depth=depth + 2, at=depth + 1)
        followed += len(set(passed) & set(urls))
    assert followed == 10 * (20 + limits.MAZE)


def test_a_section_whose_pages_end_somewhere_is_no_maze(small_budgets):
    link_filter = make_filter()
    for number in range(200):
        urls = [f"{HOME}tree/{number}x{link}" for link in range(10)]
        assert pass_links(link_filter, urls, page=f"{HOME}tree/{number}")[0] == urls
        pass_links(link_filter, [], page=urls[0])


def follow_page(link_filter, number, priority=3, **options):
    """Handle a page of a section that looks like a maze; return the priorities of its ten links."""
    parent = Task(url=f"{HOME}tree/{number}", step="s", depth=2, priority=priority)
    urls = [f"{HOME}tree/{number}x{link}" for link in range(10)]
    tasks = [Task(url=url, step="s", depth=3, priority=options.get("links", priority)) for url in urls]
    return sorted(task.priority for task in link_filter.filter(tasks, parent, Counter()))


def test_a_section_that_looks_like_a_maze_has_some_links_visited_early(small_budgets):
    link_filter = make_filter()
    assert {tuple(follow_page(link_filter, number)) for number in range(19)} == {(3,) * 10}
    early = [3] * 9 + [4]
    assert [follow_page(link_filter, 20 + n) for n in range(5)] == [
        early,
        [3] * 10,
        [3] * 10,
        [3] * 10,
        early,
    ]
    # A page that was visited early has one link that is, and the others have the usual priority again.
    assert [follow_page(link_filter, 30 + n, priority=4) for n in range(3)] == [early] * 3
    assert follow_page(link_filter, 40, priority=3, links=9) == [9] * 10, "the step's own priority stays"


def test_links_for_another_step_are_no_maze(small_budgets):
    assert wander(make_filter(), 200, step="book") == 2_000


def test_a_long_list_passes_whole():
    urls = [f"{HOME}p/item-{n}" for n in range(10_000)]
    assert pass_links(make_filter(), urls, page=HOME + "p/all") == (urls, {})


def test_nothing_counts_as_a_maze_before_thousands_of_visited_pages():
    assert WINDOW + limits.MAZE >= 8_000 and limits.MAZE_SAMPLE >= 2_000
    assert min(limits.ENDLESS, limits.RECURRING, limits.CALENDAR, limits.VARIANTS, limits.FACETS) >= 3_000


def test_made_up_folders_are_one_section_in_the_end():
    mazes = Mazes()
    urls = [f"https://a.test/w{chr(97 + n % 26)}{chr(97 + n // 26)}/x" for n in range(500)]
    sections = {mazes.section_of(url_parts(url)) for url in urls}
    assert len(sections) == MAX_FOLDERS + 1
    assert "a.test/*/" in sections


def test_many_threads_share_one_budget(small_budgets):
    link_filter = make_filter()
    with ThreadPoolExecutor(8) as pool:
        pages = [[f"{HOME}cat/{n}x{m}?sort=a" for n in range(50)] for m in range(40)]
        passed = sum(len(urls) for urls, _ in pool.map(lambda urls: pass_links(link_filter, urls), pages))
    assert passed == limits.VARIANTS


def test_tasks_without_a_url_pass_by_depth_alone():
    link_filter = make_filter(max_depth=1)
    dropped = Counter()
    parent = Task(payload={"a": 1}, step="s")
    assert len(link_filter.filter([Task(payload={"b": 1}, step="s")], parent, dropped)) == 1
    assert link_filter.filter([Task(payload={"b": 1}, step="t", depth=2)], parent, dropped) == []
    assert dropped == {"too deep": 1}


def test_what_is_remembered_is_bounded():
    seen = SeenLinks()
    assert seen.add(-1) and not seen.add(-1) and -1 in seen
    for number in range(5 * MIN_REMEMBERED):
        seen.add(number)
    assert len(seen._now) + len(seen._before) <= 2 * MIN_REMEMBERED
    assert -1 not in seen
    assert seen.add(5 * MIN_REMEMBERED - 1) is False


def test_a_second_link_to_a_page_counts_once_and_not_from_below():
    seen = SeenLinks()
    seen.add(1, section=7, depth=3)
    assert not seen.take_cross_link(1, section=7, depth=4), "from below"
    assert not seen.take_cross_link(1, section=8, depth=2), "from another section"
    assert seen.take_cross_link(1, section=7, depth=3)
    assert not seen.take_cross_link(1, section=7, depth=3)


def test_the_number_of_values_is_estimated_well_enough():
    for true in (1, 10, 100, 1_000, 5_000):
        values = Sketch(VALUE_BITS, b"key")
        for number in range(true):
            values.add(f"value {number}")
            values.add(f"value {number}")
        assert 0.8 * true <= values.estimate <= 1.2 * true


def test_budgets_are_bounded_however_many_kinds_there_are():
    budgets = ShapeBudgets(5)
    link_filter = make_filter(max_per_pattern=5)
    link_filter._budgets = budgets
    pass_links(
        link_filter,
        [
            f"{HOME}{chr(97 + a)}{chr(97 + b)}{chr(97 + c)}"
            for a in range(20)
            for b in range(20)
            for c in range(10)
        ],
    )
    assert len(budgets._budgets) <= 2_000


def test_what_a_step_sends_is_bound_by_scope_and_depth_and_by_no_trap():
    link_filter, dropped = make_filter(max_depth=3), Counter()

    def passed(url, depth=1):
        tasks = [
            Task(url=url, step="s", depth=depth, request=RequestOptions.json({"page": page}))
            for page in range(3_000)
        ]
        return len(link_filter.filter(tasks, Task(url=HOME, step="s"), dropped))

    assert passed(HOME + "x/a/a/a?sort=1&filter=2") == 3_000 and not dropped
    assert passed("https://b.test/") == passed(HOME, depth=4) == 0
    assert dropped == {"out of scope": 3_000, "too deep": 3_000}
