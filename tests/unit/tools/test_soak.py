from tools.soak import find_growing


def test_a_table_that_goes_on_growing_is_named_and_one_that_levels_off_is_not():
    level = [{"receipt": min(number * 10_000, 50_000), "lease": number % 2 * 500} for number in range(24)]
    assert find_growing(level) == []
    leaking = [{"receipt": number * 1_000, "lease": 100} for number in range(24)]
    assert find_growing(leaking) == ["receipt"]


def test_results_may_grow():
    assert find_growing([{"item": number * 10_000, "task": number * 10_000} for number in range(24)]) == []
