"""Which follow-up tasks pass the link filter, and what it remembers of them."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from shoal.core.model import Task
from shoal.core.request_options import RequestOptions
from shoal.scrape.links.filter import (
    MAX_REPORTED,
    MIN_REMEMBERED,
    OTHER_TRAPS,
    SECRETS_ELSEWHERE,
    UNENCRYPTED,
    LinkFilter,
    SeenLinks,
)
from shoal.scrape.settings.scraper import ScraperSettings

HOME = "https://a.test/"


def make_filter(**settings):
    return LinkFilter(ScraperSettings.read(**settings))


def pass_links(link_filter, urls, *, page=HOME, step="s", depth=1, at=None):
    """Return the URLs of a page that pass, and the skipped ones by reason."""
    dropped = Counter()
    tasks = [Task(url=url, step=step, depth=depth) for url in urls]
    parent = Task(url=page, step="s", depth=max(0, depth - 1) if at is None else at)
    passed = link_filter.filter(tasks, parent, dropped)
    return [task.url for task in passed], dropped


def test_a_link_that_is_queued_already_is_not_too_deep():
    link_filter = make_filter(max_depth=3)
    pass_links(link_filter, [HOME + "x"], step="t", depth=3)
    assert pass_links(link_filter, [HOME + "x"], step="t", depth=4) == ([HOME + "x"], {})


def test_links_to_skip_are_counted_and_the_rules_can_change_while_it_works():
    link_filter = make_filter(skip=f"{HOME}calendar/*", max_depth=1)
    urls = [f"{HOME}calendar/1", f"{HOME}b"]
    assert pass_links(link_filter, urls) == ([f"{HOME}b"], {"excluded by the setting skip": 1})
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


def test_secret_headers_of_a_site_stay_within_https_and_links_to_other_sites_are_what_they_are():
    link_filter = make_filter(sites={"a.test": {"headers": SECRET}}, scope="any")
    assert pass_links(link_filter, [OLD, "http://b.test/x"]) == (
        ["https://a.test/old", "http://b.test/x"],
        {},
    )
    assert pass_links(link_filter, ["https://b.test/"], depth=0) == (["https://b.test/"], {})


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


def test_tasks_without_a_url_pass_by_depth_alone():
    link_filter = make_filter(max_depth=1)
    dropped = Counter()
    parent = Task(payload={"a": 1}, step="s")
    assert len(link_filter.filter([Task(payload={"b": 1}, step="s")], parent, dropped)) == 1
    assert link_filter.filter([Task(payload={"b": 1}, step="t", depth=2)], parent, dropped) == []
    assert dropped == {"too deep": 1}


def test_what_a_step_sends_is_bound_by_scope_and_depth_and_by_no_trap():
    link_filter, dropped = make_filter(max_depth=3), Counter()

    def passed(url, depth=1):
        tasks = [
            Task(url=url, step="s", depth=depth, request=RequestOptions.json({"page": page}))
            for page in range(300)
        ]
        return len(link_filter.filter(tasks, Task(url=HOME, step="s"), dropped))

    assert passed(HOME + "x/a/a/a?sort=1&filter=2") == 300 and not dropped
    assert passed("https://b.test/") == passed(HOME, depth=4) == 0
    assert dropped == {"out of scope": 300, "too deep": 300}


def test_the_user_may_set_one_limit_for_every_pattern():
    link_filter = make_filter(max_per_pattern=10)
    urls = [f"{HOME}product/{n}" for n in range(50)]
    assert pass_links(link_filter, urls) == (urls[:10], {"trap: pattern a.test/product/#": 40})
    assert pass_links(link_filter, urls[:10]) == (urls[:10], {}), "they are queued already"
    assert pass_links(link_filter, [f"{HOME}about"]) == ([f"{HOME}about"], {})


def test_pages_of_a_pattern_that_other_workers_have_fetched_count_too():
    link_filter = make_filter(max_per_pattern=10)
    queued = Task(url=f"{HOME}product/99?token=secret", step="s", depth=1)
    pass_links(link_filter, [f"{HOME}x"], page=f"{HOME}product/1?token=1", at=1)
    (trap,) = link_filter.unshared()
    link_filter.set_shared(trap, 1, total=9)
    assert link_filter.find_trap(queued) is None and not link_filter.unshared()
    pass_links(link_filter, [f"{HOME}x"], page=f"{HOME}product/2?token=1", at=1)
    reason = link_filter.find_trap(queued)
    assert reason == "trap: pattern a.test/product/#?token"
    assert link_filter.examples[reason] == f"{HOME}product/99", "without what may be secret"
    assert pass_links(link_filter, [f"{HOME}product/5?token=1"]) == ([], {reason: 1})
    assert link_filter.find_trap(Task(url=queued.url, step="s")) is None, "a seed was chosen by the user"
    post = RequestOptions.json({"page": 1})
    assert link_filter.find_trap(Task(url=queued.url, step="s", depth=1, request=post)) is None


def test_only_so_many_traps_are_named():
    urls = [f"{HOME}{chr(97 + n)}/{m}" for n in range(MAX_REPORTED + 5) for m in range(2)]
    _, dropped = pass_links(make_filter(max_per_pattern=1), urls)
    assert len(dropped) == MAX_REPORTED + 1
    assert dropped[OTHER_TRAPS] == 5


def test_many_threads_share_one_limit():
    link_filter = make_filter(max_per_pattern=100)
    with ThreadPoolExecutor(8) as pool:
        pages = [[f"{HOME}cat/{n}x{m}" for n in range(50)] for m in range(40)]
        passed = sum(len(urls) for urls, _ in pool.map(lambda urls: pass_links(link_filter, urls), pages))
    assert passed == 100


def test_what_is_remembered_is_bounded():
    seen = SeenLinks()
    seen.add(-1)
    assert -1 in seen
    for number in range(5 * MIN_REMEMBERED):
        seen.add(number)
    assert len(seen._now) + len(seen._before) <= 2 * MIN_REMEMBERED
    assert -1 not in seen and 5 * MIN_REMEMBERED - 1 in seen


def test_a_second_link_to_a_page_counts_once_and_not_from_below():
    seen = SeenLinks()
    seen.add(1, depth=3)
    assert not seen.take_cross_link(1, depth=4), "from below"
    assert seen.take_cross_link(1, depth=3)
    assert not seen.take_cross_link(1, depth=3)
