"""Which cases of a matrix the short tier takes."""

import pytest

# Each test starts a pytest, and shows nothing about Shoal itself.
pytestmark = pytest.mark.long

MATRIX = """
import pytest

@pytest.fixture(params=["model", "sqlite", "postgres", "redis"])
def store(request): return request.param

@pytest.fixture(params=["sqlite", "postgres", "redis"])
def any_bench(request): return request.param

def test_a_promise(store): pass

@pytest.mark.parametrize("word", ["a", "b", "c"])
def test_a_promise_with_variations(store, word): pass

def test_a_whole_run(any_bench): pass

@pytest.mark.short_for(word="b")
@pytest.mark.parametrize("word", ["a", "b"])
def test_with_a_choice_of_its_own(word): pass

@pytest.mark.long
def test_that_takes_long(): pass
"""
MODES = """
import pytest

@pytest.fixture(params=["model", "sqlite", "postgres", "redis", "redis-cluster", "valkey"])
def store(request): return request.param

@pytest.mark.parametrize("word", ["a", "b", "c"])
def test_of_a_store(store, word): pass

@pytest.mark.shared_rule
@pytest.mark.parametrize("word", ["a", "b", "c"])
def test_of_a_shared_rule(store, word): pass

@pytest.mark.short_for(count=1, store="redis")
@pytest.mark.parametrize("count", [1, 9])
def test_of_histories(store, count): pass
"""


_told: list[str] = []  # by one process, which takes a second


@pytest.fixture
def chosen(run_pytest):
    if not _told:
        _told.extend(run_pytest(MATRIX, "--collect-only", "-m", "not long").splitlines())
    return [line.partition("::")[2] for line in _told if "::" in line]


def test_a_promise_is_kept_on_every_backend(chosen):
    assert [name for name in chosen if name.startswith("test_a_promise[")] == [
        f"test_a_promise[{backend}]" for backend in ("model", "sqlite", "postgres", "redis")
    ]


def test_each_server_takes_its_share_of_the_variations_and_all_are_taken(chosen):
    taken = {name.partition("[")[2].rstrip("]") for name in chosen if "variations" in name}
    in_process = {f"{backend}-{word}" for backend in ("model", "sqlite") for word in "abc"}
    assert taken == in_process | {"postgres-a", "redis-b", "postgres-c"}


def test_a_whole_run_takes_one_server(chosen):
    (name,) = [name for name in chosen if "whole" in name]
    assert name in ("test_a_whole_run[postgres]", "test_a_whole_run[redis]")


def test_a_test_may_choose_and_a_long_one_is_left_out(chosen):
    assert [name for name in chosen if "own" in name] == ["test_with_a_choice_of_its_own[b]"]
    assert not [name for name in chosen if "long" in name]


_modes: dict[str, list[str]] = {}  # by the tier, by one process each


@pytest.fixture
def of_tiers(run_pytest):
    """Return what tells the cases of a test in a tier."""

    def cases(test, tier):
        if tier not in _modes:
            told = run_pytest(MODES, "--collect-only", "-m", tier, name="test_settle.py")
            _modes[tier] = [line.partition("::")[2] for line in told.splitlines() if "::" in line]
        return {name.partition("[")[2].rstrip("]") for name in _modes[tier] if name.startswith(f"{test}[")}

    return cases


def test_each_store_takes_all_variations_of_what_it_decides_itself(of_tiers):
    taken = of_tiers("test_of_a_store", "not full")
    assert {f"{store}-{word}" for store in ("postgres", "redis", "redis-cluster") for word in "abc"} < taken
    assert len([name for name in taken if name.startswith("valkey-")]) == 1


def test_each_store_takes_some_variations_of_a_rule_that_all_share_and_the_full_tier_the_rest(of_tiers):
    taken, rest = (of_tiers("test_of_a_shared_rule", tier) for tier in ("not full", "full"))
    servers = {"postgres-a", "redis-b", "postgres-c"}
    assert servers | {f"{store}-{word}" for store in ("model", "sqlite") for word in "abc"} < taken
    for mode in ("redis-cluster-", "valkey-"):
        assert len([name for name in taken if name.startswith(mode)]) == 1
    assert len(taken | rest) == len(taken) + len(rest) == 18


def test_many_histories_on_a_server_that_repeats_another_are_of_the_full_tier(of_tiers):
    assert of_tiers("test_of_histories", "full") == {"valkey-9"}


def test_a_choice_that_names_nothing_is_an_error(run_pytest):
    told = run_pytest("import pytest\n@pytest.mark.short_for(word=1)\ndef test_one(): pass\n")
    assert "short_for names word, which it has not" in told


def test_a_choice_that_leaves_nothing_is_an_error(run_pytest):
    case = "@pytest.mark.short_for(word='c')\n@pytest.mark.parametrize('word', ['a', 'b'])\n"
    told = run_pytest(f"import pytest\n{case}def test_one(word): pass\n")
    assert "short_for leaves no case to the short tier" in told


def test_a_function_is_chosen_by_itself(run_pytest):
    case = "@pytest.mark.short_for(make=one)\n@pytest.mark.parametrize('make', [one, two])\n"
    told = run_pytest(
        f"import pytest\ndef one(): pass\ndef two(): pass\n{case}def test_one(make): pass\n", "-m", "not long"
    )
    assert "1 passed, 1 deselected" in told
