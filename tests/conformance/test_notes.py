"""Notes are state that the fleet shares: written atomically, swapped by one client, removed on expiry."""

import asyncio
import secrets

import pytest

from shoal.core.errors import InvalidNote
from shoal.core.model import MINUTE, ZERO, Note
from shoal.queue.contract import GONE, NotesSize, Queue
from shoal.queue.requests import MAX_NOTE_KEY, MAX_NOTES, MAX_TOPIC
from tests.conformance.backends import Bench, Clock, by_contract, lasting
from tests.conformance.helpers import HOUR, TEN, pages, start

TOPIC = "proxies"


async def the_note(queue: Queue, key: str = "a") -> Note:
    return (await queue.notes(TOPIC, [key]))[key]


async def values_of(queue: Queue, topic: str = TOPIC) -> dict[str, bytes]:
    return {key: note.value for key, note in (await queue.notes(topic)).items()}


async def test_a_note_is_read_as_it_was_written(queue: Queue) -> None:
    await queue.write_notes(TOPIC, {"a": b"one", "b": b""})
    notes = await queue.notes(TOPIC)
    assert {key: note.value for key, note in notes.items()} == {"a": b"one", "b": b""}
    assert all(note.stamp > 0 and ZERO <= note.age < TEN for note in notes.values())


async def test_a_topic_that_nobody_wrote_is_empty(queue: Queue) -> None:
    assert await queue.notes(TOPIC) == {}
    assert await queue.notes(TOPIC, ["a"]) == {}
    await queue.write_notes(TOPIC, {})
    assert await queue.notes(TOPIC) == {}


async def test_those_asked_for_are_returned_and_no_others(queue: Queue) -> None:
    await queue.write_notes(TOPIC, {"a": b"1", "b": b"2", "c": b"3"})
    assert set(await queue.notes(TOPIC, ["c", "a", "nowhere"])) == {"a", "c"}
    assert await queue.notes(TOPIC, []) == {}


async def test_topics_do_not_know_each_other(queue: Queue) -> None:
    await queue.write_notes("one", {"a": b"1"})
    await queue.write_notes("other", {"a": b"2"})
    await queue.write_notes("one", {"a": None})
    assert (await values_of(queue, "one"), await values_of(queue, "other")) == ({}, {"a": b"2"})


async def test_any_bytes_come_back_unchanged(queue: Queue) -> None:
    for value in (bytes(range(256)), b"\0", b"\xff\xfe", b"\x82\xa1a", '"ü"'.encode()):
        await queue.write_notes(TOPIC, {"a": value})
        assert (await the_note(queue)).value == value
    swapped = await queue.swap_note(TOPIC, "a", value[::-1], stamp=(await the_note(queue)).stamp)
    assert swapped
    assert (await the_note(queue)).value == swapped.value == value[::-1]


async def test_a_page_of_thirty_two_megabytes_fits(queue: Queue) -> None:
    value = secrets.token_bytes(1 << 16) * 512
    await queue.write_notes(TOPIC, {"page": value})
    assert (await the_note(queue, "page")).value == value
    assert await queue.trim_notes(TOPIC, max_bytes=len(value)) == 0
    assert await queue.trim_notes(TOPIC, max_bytes=len(value) - 1) == 1


async def test_thousands_are_written_read_and_removed_in_one_call_each(queue: Queue) -> None:
    values = {f"key-{n}": str(n).encode() for n in range(3_000)}
    await queue.write_notes(TOPIC, values)
    assert await values_of(queue) == values
    asked = [f"key-{n}" for n in range(0, 3_000, 3)]
    assert set(await queue.notes(TOPIC, asked)) == set(asked)
    await queue.write_notes(TOPIC, dict.fromkeys(asked))
    assert len(await queue.notes(TOPIC)) == 2_000


async def test_every_write_gives_a_new_stamp(queue: Queue) -> None:
    stamps = []
    for value in (b"1", b"2", b"2", None, b"2"):
        await queue.write_notes(TOPIC, {"a": value})
        stamps += [note.stamp for note in (await queue.notes(TOPIC)).values()]
    assert len(set(stamps)) == len(stamps) == 4


async def test_one_call_writes_and_removes(queue: Queue) -> None:
    await queue.write_notes(TOPIC, {"a": b"1", "b": b"2"})
    await queue.write_notes(TOPIC, {"a": None, "b": b"3", "c": b"4", "nowhere": None})
    assert await values_of(queue) == {"b": b"3", "c": b"4"}


async def test_the_age_is_by_the_stores_clock(queue: Queue, clock: Clock) -> None:
    await queue.write_notes(TOPIC, {"a": b"1"})
    await clock.forward(MINUTE)
    assert MINUTE <= (await the_note(queue)).age < MINUTE + TEN
    await queue.write_notes(TOPIC, {"a": b"1"})
    assert (await the_note(queue)).age < TEN


# Swaps


async def test_a_swap_with_the_right_stamp_writes_and_returns_what_is_there_now(queue: Queue) -> None:
    await queue.write_notes(TOPIC, {"a": b"1"})
    before = await the_note(queue)
    swapped = await queue.swap_note(TOPIC, "a", b"2", stamp=before.stamp)
    after = await the_note(queue)
    assert swapped
    assert (swapped.value, swapped.stamp) == (after.value, after.stamp) == (b"2", after.stamp)
    assert after.stamp != before.stamp


async def test_a_swap_with_an_old_stamp_changes_nothing(queue: Queue) -> None:
    await queue.write_notes(TOPIC, {"a": b"1"})
    old = await the_note(queue)
    await queue.write_notes(TOPIC, {"a": b"1"})
    new = await the_note(queue)
    assert await queue.swap_note(TOPIC, "a", b"2", stamp=old.stamp) is None
    assert await queue.swap_note(TOPIC, "a", None, stamp=old.stamp) is None
    assert ((await the_note(queue)).value, (await the_note(queue)).stamp) == (b"1", new.stamp)


async def test_a_swap_without_a_stamp_makes_a_note_that_is_not_there(queue: Queue) -> None:
    made = await queue.swap_note(TOPIC, "a", b"1", stamp=None)
    assert made
    assert (await the_note(queue)).stamp == made.stamp
    assert await queue.swap_note(TOPIC, "a", b"2", stamp=None) is None
    assert await queue.swap_note(TOPIC, "b", b"2", stamp=made.stamp) is None
    assert await values_of(queue) == {"a": b"1"}


async def test_a_swap_removes_and_what_was_removed_does_not_match_again(queue: Queue) -> None:
    made = await queue.swap_note(TOPIC, "a", b"1", stamp=None)
    assert made
    assert await queue.swap_note(TOPIC, "a", None, stamp=made.stamp) == GONE
    assert await queue.notes(TOPIC) == {}
    assert await queue.swap_note(TOPIC, "a", b"2", stamp=made.stamp) is None
    assert await queue.swap_note(TOPIC, "a", b"2", stamp=GONE.stamp) is None
    assert await queue.swap_note(TOPIC, "a", None, stamp=None) == GONE
    assert await queue.swap_note(TOPIC, "a", b"1", stamp=None)
    assert await queue.swap_note(TOPIC, "a", b"2", stamp=made.stamp) is None


async def test_of_many_who_swap_the_same_stamp_one_succeeds(queue: Queue) -> None:
    swaps = [queue.swap_note(TOPIC, "a", str(n).encode(), stamp=None) for n in range(20)]
    won = [note for note in await asyncio.gather(*swaps) if note]
    assert len(won) == 1
    assert await values_of(queue) == {"a": won[0].value}


# Expiry


async def test_an_expired_note_is_gone_at_once(queue: Queue, clock: Clock) -> None:
    await queue.write_notes(TOPIC, {"a": b"1"}, ttl=MINUTE)
    await queue.write_notes(TOPIC, {"b": b"2"}, ttl=HOUR)
    await queue.write_notes(TOPIC, {"c": b"3"})
    stamp = (await the_note(queue)).stamp
    await clock.forward(MINUTE)
    assert set(await queue.notes(TOPIC)) == {"b", "c"}
    assert await queue.notes(TOPIC, ["a"]) == {}
    assert await queue.swap_note(TOPIC, "a", b"9", stamp=stamp) is None
    assert await queue.swap_note(TOPIC, "a", b"9", stamp=None)
    await clock.forward(HOUR)
    assert await values_of(queue) == {"a": b"9", "c": b"3"}


async def test_the_last_write_says_how_long_a_note_lives(queue: Queue, clock: Clock) -> None:
    await queue.write_notes(TOPIC, {"a": b"1", "b": b"1", "c": b"1"}, ttl=MINUTE)
    await queue.write_notes(TOPIC, {"a": b"2"})
    await queue.write_notes(TOPIC, {"b": b"2"}, ttl=HOUR)
    swapped = await queue.swap_note(TOPIC, "c", b"2", stamp=(await the_note(queue, "c")).stamp, ttl=HOUR)
    assert swapped
    await clock.forward(10 * MINUTE)
    assert set(await queue.notes(TOPIC)) == {"a", "b", "c"}
    await clock.forward(HOUR)
    assert set(await queue.notes(TOPIC)) == {"a"}


async def test_reclaiming_leaves_living_notes_alone(queue: Queue, clock: Clock) -> None:
    await queue.write_notes(TOPIC, {"a": b"1", "b": b"1"}, ttl=MINUTE)
    await queue.write_notes("other", {"c": b"1"}, ttl=HOUR)
    await clock.forward(MINUTE)
    await queue.reclaim()
    await queue.reclaim()
    assert (await queue.notes(TOPIC), set(await queue.notes("other"))) == ({}, {"c"})


# Trimming


async def written_one_by_one(queue: Queue, clock: Clock, **sizes: int) -> None:
    for key, size in sizes.items():
        await queue.write_notes(TOPIC, {key: b"x" * size})
        await clock.forward(TEN)


async def test_the_oldest_notes_are_trimmed_until_the_rest_fits(queue: Queue, clock: Clock) -> None:
    await written_one_by_one(queue, clock, z=100, a=100, m=100, b=100)
    assert await queue.trim_notes(TOPIC, max_bytes=400) == 0
    assert await queue.trim_notes(TOPIC, max_bytes=399) == 1
    assert set(await queue.notes(TOPIC)) == {"a", "m", "b"}
    assert await queue.trim_notes(TOPIC, max_bytes=150) == 2
    assert set(await queue.notes(TOPIC)) == {"b"}
    assert await queue.trim_notes(TOPIC, max_bytes=0) == 1
    assert await queue.notes(TOPIC) == {}


async def test_a_note_that_was_written_again_is_young(queue: Queue, clock: Clock) -> None:
    await written_one_by_one(queue, clock, a=100, b=100, c=100)
    await queue.swap_note(TOPIC, "a", b"x" * 10, stamp=(await the_note(queue)).stamp)
    assert await queue.trim_notes(TOPIC, max_bytes=110) == 1
    assert set(await queue.notes(TOPIC)) == {"a", "c"}


async def test_expired_and_removed_notes_take_no_room(queue: Queue, clock: Clock) -> None:
    await written_one_by_one(queue, clock, a=100, b=100)
    await queue.write_notes(TOPIC, {"c": b"x" * 1000, "d": b"x" * 1000}, ttl=MINUTE)
    await queue.write_notes(TOPIC, {"d": None})
    await clock.forward(MINUTE)
    assert await queue.trim_notes(TOPIC, max_bytes=200) == 0
    assert set(await queue.notes(TOPIC)) == {"a", "b"}


async def test_the_size_of_a_topic_is_that_of_its_notes_that_have_not_expired(
    queue: Queue, clock: Clock
) -> None:
    assert await queue.notes_size(TOPIC) == NotesSize(0, 0, None)
    await queue.write_notes(TOPIC, {"a": b"12345", "b": b""})
    await queue.write_notes(TOPIC, {"short": b"123"}, ttl=MINUTE)
    await queue.write_notes("other", {"a": b"1"})
    await clock.forward(2 * MINUTE)
    await queue.write_notes(TOPIC, {"a": b"1234567"})
    found = await queue.notes_size(TOPIC)
    assert (found.count, found.bytes) == (2, 7)
    assert found.oldest is not None and 2 * MINUTE <= found.oldest < 2 * MINUTE + TEN
    await queue.write_notes(TOPIC, {"a": None, "b": None})
    assert await queue.notes_size(TOPIC) == NotesSize(0, 0, None)


async def test_a_trim_looks_at_one_topic(queue: Queue) -> None:
    await queue.write_notes(TOPIC, {"a": b"x" * 100})
    await queue.write_notes("other", {"a": b"x" * 100})
    assert await queue.trim_notes(TOPIC, max_bytes=50) == 1
    assert set(await queue.notes("other")) == {"a"}
    assert await queue.trim_notes("nowhere", max_bytes=0) == 0


async def test_a_large_topic_is_trimmed_in_order_too(queue: Queue, clock: Clock) -> None:
    for age in range(3):
        await queue.write_notes(TOPIC, {f"{age}-{n}": b"x" * 10 for n in range(1_000)})
        await clock.forward(TEN)
    assert await queue.trim_notes(TOPIC, max_bytes=15_000) == 1_500
    left = [key[0] for key in await queue.notes(TOPIC)]
    assert (left.count("0"), left.count("1"), left.count("2")) == (0, 500, 1_000)


# Names and limits


async def test_printable_names_of_any_script_are_taken(queue: Queue) -> None:
    for name in ("ü", "名前", "a b", "a:b", "{x}", "a/b?c=d&e=%20", "'; DROP", "😀" * 50):
        await queue.write_notes(name, {name: b"1", name + "!": b"2"})
        assert set(await queue.notes(name)) == {name, name + "!"}
        assert set(await queue.notes(name, [name])) == {name}
        assert await queue.trim_notes(name, max_bytes=0) == 2


async def test_a_key_may_be_as_long_as_a_url(queue: Queue) -> None:
    keys = [secrets.token_hex(MAX_NOTE_KEY // 2 - 1) + end for end in ("ab", "ba")]
    await queue.write_notes(TOPIC, dict.fromkeys(keys, b"1"))
    assert set(await queue.notes(TOPIC)) == set(keys) == set(await queue.notes(TOPIC, keys))


@by_contract
async def test_other_keys_are_refused_and_nothing_is_written(queue: Queue) -> None:
    for key in ("", "a\0b", "a\nb", "\ud800", "x" * (1 << 20)):
        with pytest.raises(InvalidNote, match="a key must be 1 to 8,192 printable characters") as refusal:
            await queue.write_notes(TOPIC, {"good": b"1", key: b"2"})
        assert len(str(refusal.value)) < 500
        with pytest.raises(InvalidNote):
            await queue.swap_note(TOPIC, key, b"1", stamp=None)
        with pytest.raises(InvalidNote):
            await queue.notes(TOPIC, [key])
    assert await queue.notes(TOPIC) == {}


@by_contract
async def test_other_topics_are_refused(queue: Queue) -> None:
    for topic in ("", "a\0b", "x" * (MAX_TOPIC + 1)):
        with pytest.raises(InvalidNote, match="topic must be 1 to 200 printable characters"):
            await queue.notes(topic)
        with pytest.raises(InvalidNote):
            await queue.write_notes(topic, {"a": b"1"})
        with pytest.raises(InvalidNote):
            await queue.trim_notes(topic, max_bytes=0)


@by_contract
async def test_a_note_without_a_life_is_refused(queue: Queue) -> None:
    for ttl in (ZERO, -MINUTE):
        with pytest.raises(InvalidNote, match="ttl must be more than zero"):
            await queue.write_notes(TOPIC, {"a": b"1"}, ttl=ttl)
    assert await queue.notes(TOPIC) == {}


@by_contract
async def test_what_is_too_large_or_no_bytes_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidNote, match="the limit of one call is"):
        await queue.write_notes(TOPIC, {"a": bytes(MAX_NOTES // 2), "b": bytes(MAX_NOTES // 2 + 1)})
    with pytest.raises(InvalidNote, match="must be bytes or None, got str"):
        await queue.write_notes(TOPIC, {"a": "text"})  # type: ignore[dict-item]
    with pytest.raises(InvalidNote, match="max_bytes must not be negative"):
        await queue.trim_notes(TOPIC, max_bytes=-1)
    assert await queue.notes(TOPIC) == {}


# Beside runs


async def test_a_purged_run_leaves_notes_alone(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    await queue.write_notes(run.id, {"a": b"1"})
    await queue.purge(run.id)
    assert await values_of(queue, run.id) == {"a": b"1"}


@lasting
async def test_notes_outlive_the_queue_that_wrote_them(bench: Bench) -> None:
    await bench.queue.write_notes(TOPIC, {"a": b"1"}, ttl=HOUR)
    before = await the_note(bench.queue)
    after = await the_note(await bench.restart())
    assert (after.value, after.stamp) == (b"1", before.stamp)
