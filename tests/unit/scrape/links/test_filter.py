"""Which follow-up tasks pass the link filter, and what it remembers of them."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest

from shoal.core.model import Task
from shoal.core.request_options import RequestOptions
from shoal.scrape.links.budgets import CALENDAR, FACETS, PAIRS, VALUE_BITS, VARIANTS, ShapeBudgets
from shoal.scrape.links.dead_ends import MAX_FOLDERS, MAX_PER_PAGE, MAX_USELESS_LINKS, DeadEnds
from shoal.scrape.links.filter import MAX_REPORTED, OTHER_TRAPS, SECRETS_ELSEWHERE, UNENCRYPTED, LinkFilter
from shoal.scrape.links.seen import MIN_REMEMBERED, SeenSet
from shoal.scrape.links.sketch import Sketch
from shoal.scrape.settings.scraper import ScraperSettings

HOME = "https://a.test/"


def make_filter(**settings):
    return LinkFilter(ScraperSettings.read(**settings), today=lambda: date(2026, 6, 1))


def pass_links(link_filter, urls, *, page=HOME, items=(), step="s", depth=1):
    """Return the URLs of a page that pass, and the skipped ones by reason."""
    dropped = Counter()
    tasks = [Task(url=url, step=step, depth=depth) for url in urls]
    passed = link_filter.filter(tasks, Task(url=page, step="s"), list(items), dropped)
    return [task.url for task in passed], dropped


def test_depth_scope_and_traps_are_counted_apart():
    link_filter = make_filter(max_depth=3)
    assert pass_links(link_filter, [HOME + "x"], depth=3) == ([HOME + "x"], {})
    assert pass_links(link_filter, [HOME + "y"], depth=4) == ([], {"too deep": 1})
    assert pass_links(link_filter, ["https://b.test/"]) == ([], {"out of scope": 1})
    assert pass_links(link_filter, [HOME + "x/a/a/a"]) == ([], {"trap: a.test/x/ (repeating paths)": 1})


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
    passed = make_filter().filter(tasks, Task(url=HOME, step="s"), [], Counter())
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
    pass_links(link_filter, [HOME + "y"], depth=4)
    assert link_filter.examples == {"out of scope": "https://b.test/1", "too deep": HOME + "y"}


def test_a_session_id_is_taken_out_of_the_task():
    link_filter = make_filter()
    assert pass_links(link_filter, [HOME + "x;jsessionid=1", HOME + "x?PHPSESSID=2&b=1"]) == (
        [HOME + "x", HOME + "x?b=1"],
        {},
    )


def test_filters_in_ever_new_combinations_are_cut_and_named():
    urls = [f"{HOME}f?a={a}&b={b}&c={c}" for a in range(10) for b in range(10) for c in range(10)]
    passed, dropped = pass_links(make_filter(), urls)
    assert FACETS <= len(passed) < 2 * FACETS
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


def test_two_parameters_of_few_values_are_cut_late():
    urls = [f"{HOME}x?a={a}&b={b}" for a in range(100) for b in range(100)]
    passed, dropped = pass_links(make_filter(), urls)
    assert PAIRS < len(passed) < 10_000
    assert set(dropped) == {"trap: a.test/x?"}


def test_sorted_views_and_calendars_are_cut():
    views = [f"{HOME}cat/{n}?sort=price" for n in range(500)]
    passed, dropped = pass_links(make_filter(), views)
    assert len(passed) == VARIANTS
    assert dropped == {"trap: a.test/cat/ (sorted and printed views)": 500 - VARIANTS}
    days = [f"{HOME}calendar/2026/{m:02}/{d:02}" for m in range(1, 13) for d in range(1, 29)]
    passed, dropped = pass_links(make_filter(), days)
    assert len(passed) == CALENDAR
    assert dropped == {"trap: a.test/calendar/ (calendar)": 336 - CALENDAR}


def test_links_that_were_let_in_pass_again_and_cost_nothing():
    link_filter = make_filter()
    views = [f"{HOME}cat/{n}?sort=price" for n in range(VARIANTS)]
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


def test_only_so_many_traps_are_named():
    link_filter = make_filter()
    urls = [f"{HOME}{chr(97 + n // 26)}{chr(97 + n % 26)}/a/a/a" for n in range(100)]
    _, dropped = pass_links(link_filter, urls)
    assert len(dropped) == MAX_REPORTED + 1
    assert dropped[OTHER_TRAPS] == 100 - MAX_REPORTED


def wander(link_filter, pages, *, page="https://a.test/maze/{}", links=10, items=()):
    """Handle pages of a dead end, each with ten links to others; return the number of followed links."""
    followed = 0
    for number in range(pages):
        urls = [page.format(f"{number}x{link}") for link in range(links)]
        followed += len(pass_links(link_filter, urls, page=page.format(number), items=items)[0])
    return followed


def test_pages_without_items_that_link_only_to_their_like_are_a_dead_end():
    link_filter = make_filter()
    pass_links(link_filter, [], page=HOME + "p", items=[{"title": "real"}])
    assert wander(link_filter, 100) == MAX_USELESS_LINKS
    dropped = pass_links(link_filter, [HOME + "maze/new"], page=HOME + "maze/1")[1]
    assert dropped == {"trap: a.test/maze/ (nothing new)": 1}


def test_without_any_items_nothing_is_a_dead_end():
    assert wander(make_filter(), 100) == 1000


def test_a_page_that_gives_a_new_item_opens_its_part_again():
    link_filter = make_filter()
    pass_links(link_filter, [], page=HOME + "p", items=[{"title": "real"}])
    wander(link_filter, 100)
    pass_links(link_filter, [], page=HOME + "maze/1", items=[{"title": "there was something"}])
    assert pass_links(link_filter, [HOME + "maze/more"], page=HOME + "maze/2")[0] == [HOME + "maze/more"]


def test_an_item_that_differs_only_in_its_address_is_nothing_new():
    link_filter = make_filter()
    for number in range(100):
        item = {"title": "Not found", "url": f"{HOME}maze/{number}"}
        links = [f"{HOME}maze/{number}x{link}" for link in range(10)]
        passed, _ = pass_links(link_filter, links, page=f"{HOME}maze/{number}", items=[item])
    assert passed == []


def test_a_link_for_another_step_or_to_another_part_is_of_use():
    link_filter = make_filter()
    pass_links(link_filter, [], page=HOME + "p", items=[{"title": "real"}])
    for number in range(100):
        page = f"{HOME}list/{number}"
        assert (
            len(pass_links(link_filter, [f"{HOME}list/{number}x{link}" for link in range(10)], page=page)[0])
            == 10
        )
        pass_links(link_filter, [f"{HOME}list/book{number}"], page=page, step="book")


def test_a_long_list_passes_whole():
    link_filter = make_filter()
    pass_links(link_filter, [], page=HOME + "p", items=[{"title": "real"}])
    urls = [f"{HOME}p/item-{n}" for n in range(10_000)]
    assert pass_links(link_filter, urls, page=HOME + "p/all") == (urls, {})
    assert MAX_PER_PAGE < MAX_USELESS_LINKS


def test_a_refused_link_does_not_pass_at_the_second_try():
    link_filter = make_filter()
    pass_links(link_filter, [], page=HOME + "p", items=[{"title": "real"}])
    wander(link_filter, 100)
    for _ in range(3):
        assert pass_links(link_filter, [HOME + "maze/again"], page=HOME + "maze/1")[0] == []


def test_made_up_folders_are_one_part_in_the_end():
    dead_ends = DeadEnds()
    parts = {
        dead_ends.section_of(f"https://a.test/w{chr(97 + n % 26)}{chr(97 + n // 26)}/x") for n in range(500)
    }
    assert len(parts) == MAX_FOLDERS + 1
    assert "a.test/*/" in parts


def test_many_threads_share_one_budget():
    link_filter = make_filter()
    with ThreadPoolExecutor(8) as pool:
        pages = [[f"{HOME}cat/{n}x{m}?sort=a" for n in range(50)] for m in range(40)]
        passed = sum(len(urls) for urls, _ in pool.map(lambda urls: pass_links(link_filter, urls), pages))
    assert passed == VARIANTS


def test_tasks_without_a_url_pass_by_depth_alone():
    link_filter = make_filter(max_depth=1)
    dropped = Counter()
    parent = Task(payload={"a": 1}, step="s")
    assert len(link_filter.filter([Task(payload={"b": 1}, step="s")], parent, [], dropped)) == 1
    assert link_filter.filter([Task(payload={"b": 1}, step="s", depth=2)], parent, [], dropped) == []
    assert dropped == {"too deep": 1}


def test_what_is_remembered_is_bounded():
    seen = SeenSet()
    assert seen.add("a") and not seen.add("a") and "a" in seen
    for number in range(5 * MIN_REMEMBERED):
        seen.add(number)
    assert len(seen._now) + len(seen._before) <= 2 * MIN_REMEMBERED
    assert "a" not in seen
    assert seen.add(5 * MIN_REMEMBERED - 1) is False


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
        return len(link_filter.filter(tasks, Task(url=HOME, step="s"), [], dropped))

    assert passed(HOME + "x/a/a/a?sort=1&filter=2") == 3_000 and not dropped
    assert passed("https://b.test/") == passed(HOME, depth=4) == 0
    assert dropped == {"out of scope": 3_000, "too deep": 3_000}
