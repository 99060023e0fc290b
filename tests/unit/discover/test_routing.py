"""Routing rules: which rule sets which field."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.model import MINUTE, RunSettings, Task
from shoal.discover.routing import RouteDecision, Routes, Rule, routed_url
from shoal.queue.intake import Intake

HOUR = 60 * MINUTE


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://a.test/news/1", {"pattern": "https://a.test/news/*"}),
        ("https://a.test/news/1", {"pattern": "a.test/news/*"}),
        ("http://a.test/news/1", {"pattern": "*://a.test/*"}),
        ("https://a.test:8443/news", {"pattern": "a.test/*"}),
        ("https://a.test:8443/news", {"pattern": "a.test:8443/*"}),
        ("https://www.a.test/x.pdf", {"pattern": "*/*.pdf"}),
        ("https://a.test/p?id=7", {"pattern": "a.test/p?id=*"}),
        ("https://a.test/Straße/1", {"pattern": "A.test/Straße/*"}),
        ("https://a.test/news/1", {"pattern": r"re:https://a\.test/news/\d"}),
        ("https://b.a.test/", {"host": "*.a.test"}),
        ("https://a.test:8443/", {"host": "a.test"}),
        ("https://a.test/about?x=1", {"path": "/about"}),
        ("https://a.test/deep/x.pdf?x", {"path": "*.pdf"}),
        ("https://a.test/news/1", {"host": "a.test", "path": "/news/*", "pattern": "https://*/*"}),
        ("https://a.test/", {}),
    ],
)
def test_a_rule_matches(url, rule):
    assert Rule(**rule, priority=1).matches(routed_url(url))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://a.test/blog/1", {"pattern": "a.test/news/*"}),
        ("http://a.test/news/1", {"pattern": "https://a.test/*"}),
        ("https://evil.test/a.test/news/1", {"pattern": "*.test/news/*"}),
        ("https://evil.test/x.a.test/", {"host": "*.a.test"}),
        ("https://a.test.evil/", {"host": "a.test"}),
        ("https://a.test/", {"host": "*.a.test"}),
        ("https://a.test:8443/", {"pattern": "a.test:9000/*"}),
        ("https://a.test/x/news/", {"pattern": r"re:/news/"}),
        ("https://a.test/x?/about", {"path": "*/about"}),
        ("https://a.test/news/1", {"host": "a.test", "path": "/blog/*"}),
        ("https://a.test/NEWS/", {"path": "/news/*"}),
    ],
)
def test_a_rule_does_not_match(url, rule):
    assert not Rule(**rule, priority=1).matches(routed_url(url))


def test_each_field_is_decided_by_the_first_rule_that_sets_it():
    routes = Routes(
        [
            Rule(path="/news/*", priority=9),
            Rule(host="b.test", priority=1),
            Rule(path="/news/*", priority=5, ttl="30m", partition="news"),
            Rule(ttl="24h", step="page"),
        ]
    )
    assert routes.explain("https://a.test/news/1") == [
        RouteDecision(1, "priority", 9),
        RouteDecision(3, "ttl", timedelta(minutes=30)),
        RouteDecision(3, "partition", "news"),
        RouteDecision(4, "step", "page"),
    ]
    task = routes.apply(Task(url="https://a.test/news/1", payload={"n": 1}, key="k", depth=3))
    assert task == Task(
        url="https://a.test/news/1",
        payload={"n": 1},
        key="k",
        depth=3,
        priority=9,
        ttl=timedelta(minutes=30),
        partition="news",
        step="page",
    )


def test_the_smaller_of_two_times_to_live_wins():
    routes = Routes([Rule(ttl=HOUR)])
    assert routes.apply(Task(ttl=MINUTE)).ttl == MINUTE
    assert routes.apply(Task(ttl=2 * HOUR)).ttl == HOUR
    assert routes.apply(Task()).ttl == HOUR


def test_a_task_without_a_url_obeys_the_rules_that_ask_for_none():
    routes = Routes([Rule(path="*", priority=9), Rule(priority=2)])
    assert routes.apply(Task(payload={"n": 1})).priority == 2


def test_what_no_rule_touches_stays_as_it_is():
    task = Task(url="https://a.test/")
    assert Routes([Rule(host="b.test", priority=3)]).apply(task) is task
    assert Routes().apply(task) is task


def test_a_url_that_is_none_is_left_for_the_queue_to_refuse():
    task = Task(url="nonsense")
    assert Routes([Rule(priority=3)]).apply(task) is task
    with pytest.raises(InvalidUrl):
        Routes().explain("nonsense")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"pattern": "*.pdf", "priority": 1}, r"pattern '\*.pdf' is ambiguous.*path='\*.pdf'"),
        ({"pattern": "re:(a+)+", "priority": 1}, r"pattern 're:\(a\+\)\+' repeats a group"),
        ({"pattern": "re:(", "priority": 1}, "is not a regular expression"),
        ({"host": "https://a.test", "priority": 1}, "host 'https://a.test' contains a slash"),
        ({"path": "news", "priority": 1}, "path 'news' must begin with /"),
        ({"path": "/x"}, "rule sets nothing; give it one of priority, ttl, partition, step"),
        ({"priorty": 1}, r"priorty cannot be set by a rule. Did you mean 'priority'\?"),
        ({"priority": 10}, "priority must be a whole number from 0 to 9, got 10"),
        ({"ttl": "soon"}, "ttl must be a duration"),
        ({"step": ""}, "step must not be empty"),
        ({"partition": 5}, "partition must be one line of text"),
        ({"delivery": "at_most_once"}, "delivery is a setting of a step.*step = .NAME"),
    ],
)
def test_a_rule_that_cannot_be_used_says_why(rule, message):
    with pytest.raises(InvalidSetting, match=message):
        Rule(**rule)


def test_rules_are_read_from_a_settings_file_and_errors_name_their_place():
    routes = Routes.read([{"match": "a.test/news/*", "priority": 9}, {"host": "b.test", "ttl": "1h"}])
    assert routes.explain("https://b.test/") == [RouteDecision(2, "ttl", HOUR)]
    with pytest.raises(InvalidSetting, match=r"routes\[2\]\.match '\*\.pdf' is ambiguous"):
        Routes.read([{"priority": 1}, {"match": "*.pdf", "priority": 1}])
    with pytest.raises(InvalidSetting, match=r"routes\[1\]\.host must be text, got 5"):
        Routes.read([{"host": 5, "priority": 1}])
    with pytest.raises(InvalidSetting, match=r"routes\[1\]\.ttl must be more than zero"):
        Routes.read([{"ttl": 0}])


paths = st.sampled_from(["/", "/a", "/b", "/a/b", "/a?b", "/ab"])
urls = st.builds("https://{}{}".format, st.sampled_from(["a.test", "b.test"]), paths)
ttls = st.none() | st.integers(1, 9).map(lambda minutes: minutes * MINUTE)
fields = {
    "priority": st.integers(0, 9),
    "ttl": st.integers(1, 9).map(lambda minutes: minutes * MINUTE),
    "partition": st.sampled_from(["x", "y"]),
    "step": st.sampled_from(["one", "two"]),
}
conditions = {
    "pattern": st.sampled_from(["", "a.test/*", "*/a*", "re:.*b", "https://b.test/"]),
    "host": st.sampled_from(["", "a.test", "*.test", "c.test"]),
    "path": st.sampled_from(["", "/a*", "*b", "/"]),
}
sets = st.fixed_dictionaries({}, optional=fields).filter(bool)
rules = st.builds(lambda when, what: Rule(**when, **what), st.fixed_dictionaries(conditions), sets)
tasks = st.builds(lambda url, ttl: Task(url=url, ttl=ttl), st.none() | urls, ttls)


@given(st.lists(rules, max_size=6), tasks)
def test_any_mix_of_rules_gives_one_answer(rules, task):
    routes = Routes(rules)
    routed = routes.apply(task)
    address = None if task.url is None else routed_url(task.url)
    matching = [rule.sets for rule in rules if rule.matches(address)]
    for field in fields:
        decided = next((sets[field] for sets in matching if field in sets), None)
        if field == "ttl":
            given = [ttl for ttl in (task.ttl, decided) if ttl is not None]
            assert routed.ttl == min(given, default=None)
        else:
            assert getattr(routed, field) == (getattr(task, field) if decided is None else decided)
    assert routes.apply(routed) == routed
    assert routed.url == task.url


@given(st.lists(rules, max_size=6), tasks, ttls)
def test_the_smallest_of_the_times_to_live_of_rules_task_and_run_wins(rules, task, run_ttl):
    entry = Intake("run", RunSettings(ttl=run_ttl)).entry(Routes(rules).apply(task))
    address = None if task.url is None else routed_url(task.url)
    ruled = [rule.sets["ttl"] for rule in rules if "ttl" in rule.sets and rule.matches(address)]
    assert entry.ttl == min((ttl for ttl in (run_ttl, task.ttl, *ruled[:1]) if ttl), default=None)


@given(st.lists(rules, max_size=6), urls)
def test_what_is_explained_is_what_is_done(rules, url):
    routes = Routes(rules)
    decisions = routes.explain(url)
    assert len({decision.field for decision in decisions}) == len(decisions)
    routed = routes.apply(Task(url=url))
    assert all(getattr(routed, field) == value for _, field, value in decisions)
    assert routes.apply(Task(url=url)) == Routes(rules[:]).apply(Task(url=url))
