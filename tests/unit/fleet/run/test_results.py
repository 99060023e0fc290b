"""The items of a run are written while it is in progress."""

import asyncio
from types import SimpleNamespace

import pytest

from shoal.core.errors import ExportFailed, InvalidSetting, QueueUnavailable
from shoal.export.files.jsonl import JsonlWriter
from shoal.fleet.run.results import Output, ResultWriter
from tests.unit.export.factories import item


class Store:
    """A queue that has only items, and may be unreachable."""

    def __init__(self, *numbers):
        self.numbers, self.is_away, self.vain_looks = list(numbers), False, 0
        self.noted = {}

    async def notes(self, topic, keys):
        return {key: SimpleNamespace(value=self.noted[key]) for key in keys if key in self.noted}

    async def write_notes(self, topic, values, *, ttl=None):
        self.noted = {key: value for key, value in {**self.noted, **values}.items() if value is not None}

    async def items(self, run_id, *, after=0):
        if self.is_away:
            self.vain_looks += 1
            raise QueueUnavailable("store", "it is away")
        for number in sorted(self.numbers):
            if number > after:
                yield item({"n": number}, number)


async def until(is_so):
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


async def has(path, *expected):
    """Wait until a file has these items."""
    await until(lambda: path.exists() and numbers(path.read_text()) == [*expected])


def numbers(text):
    return [int(line[5:-1]) for line in text.splitlines()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "items.jsonl"


async def test_lines_are_written_during_the_run_and_the_rest_at_its_end(path):
    store = Store(1, 2)
    async with ResultWriter(store, "r", str(path)) as results:
        await has(path, 1, 2)
        store.numbers += [3]
        await results.finish(3)
    assert numbers(path.read_text()) == [1, 2, 3]


async def test_an_item_that_turns_up_late_reaches_stdout_too(capfdbinary):
    store = Store(1, 5)
    async with ResultWriter(store, "r", "-") as results:
        written = bytearray()

        def has_two():
            written.extend(capfdbinary.readouterr().out)
            return written.count(b"\n") == 2

        await until(has_two)
        store.numbers += [3]
        await results.finish(3)
    assert numbers((written + capfdbinary.readouterr().out).decode()) == [1, 5, 3]


async def test_a_store_that_is_unreachable_for_a_while_loses_nothing(path):
    store = Store(1)
    async with ResultWriter(store, "r", str(path)) as results:
        await has(path, 1)
        store.is_away = True
        await until(lambda: store.vain_looks)
        store.is_away = False
        store.numbers += [2]
        await has(path, 1, 2)
        await results.finish(2)


async def test_what_could_not_be_written_as_it_came_is_written_at_the_end(path, monkeypatch):
    write, failures = JsonlWriter.write, []

    def full(self, items):
        failures.append(len(items))
        raise ExportFailed(str(path), "the disk is full", "Make room.")

    monkeypatch.setattr(JsonlWriter, "write", full)
    async with ResultWriter(Store(1, 2), "r", str(path)) as results:
        await until(lambda: failures)
        monkeypatch.setattr(JsonlWriter, "write", write)
        await results.finish(2)
    assert numbers(path.read_text()) == [1, 2]


async def test_a_format_that_must_be_whole_is_written_at_the_end(tmp_path):
    path = tmp_path / "items.csv"
    async with ResultWriter(Store(1, 2), "r", str(path)) as results:
        assert not path.exists()
        await results.finish(2)
    assert path.read_text().split() == ["n", "1", "2"]


async def test_a_run_that_fails_leaves_what_was_written(path):
    with pytest.raises(RuntimeError):
        async with ResultWriter(Store(1), "r", str(path)):
            await has(path, 1)
            raise RuntimeError
    assert numbers(path.read_text()) == [1]


async def test_an_output_that_cannot_be_written_is_refused_at_once(tmp_path):
    with pytest.raises(InvalidSetting):
        ResultWriter(Store(), "r", str(tmp_path / "missing" / "items.jsonl"))


async def test_what_was_there_stays_until_the_run_begins(path):
    path.write_text("of another run\n")
    results = ResultWriter(Store(), "r", str(path))
    assert path.read_text() == "of another run\n"
    async with results:
        await results.finish(0)
    assert path.read_text() == ""


async def test_without_a_path_nothing_is_read(tmp_path):
    store = Store(1)
    store.is_away = True
    async with ResultWriter(store, "r", None) as results:
        await results.finish(1)


async def write(store, path, run_id="r", **mode):
    is_new = mode.pop("is_new", True)
    output = Output(str(path), **mode)
    async with ResultWriter(store, run_id, str(path), output.mode(is_new=is_new)) as results:
        await results.finish(len(store.numbers))


async def test_a_new_run_refuses_a_file_that_has_content_and_says_how_to_go_on(path):
    path.write_text("")
    await write(Store(1), path)  # an empty file is nobody's
    with pytest.raises(InvalidSetting) as caught:
        await write(Store(2), path)
    assert "already exists. Add --overwrite to replace it, or --append to add to it" in str(caught.value)
    assert numbers(path.read_text()) == [1]
    store = Store(2)
    await write(store, path, overwrite=True)
    assert numbers(path.read_text()) == [2]
    store.numbers = [2, 3]
    await write(store, path, is_new=False)
    assert numbers(path.read_text()) == [2, 3]


async def test_a_resumed_run_cuts_no_lines_that_others_have_appended(path):
    store = Store(1)
    await write(store, path, "a", append=True)
    path.write_text(path.read_text() + '{"n":9}\n')  # by a run of another queue
    store.numbers = [1, 2]
    with pytest.raises(InvalidSetting, match="has content that run a has not written"):
        await write(store, path, "a", is_new=False, append=True)
    assert numbers(path.read_text()) == [1, 9]


async def test_a_torn_last_line_of_others_doubles_nothing(path):
    path.write_text('{"n":7}\n{"n":8, "torn')
    store = Store(1)
    await write(store, path, "a", append=True)
    store.numbers = [1, 2]
    await write(store, path, "a", is_new=False, append=True)
    assert numbers(path.read_text()) == [7, 1, 2]


async def test_a_resumed_run_replaces_no_file_that_it_has_not_written(path):
    path.write_text("date,salary\n")
    with pytest.raises(InvalidSetting, match=r"was not written by this run.*--overwrite"):
        await write(Store(1), path, is_new=False)
    assert path.read_text() == "date,salary\n"
    store = Store(1)
    await write(store, path, "a", overwrite=True)
    await write(store, path, "b", overwrite=True)
    with pytest.raises(InvalidSetting, match="has the items of run b"):
        await write(store, path, "a", is_new=False)


async def test_a_new_run_may_append_and_when_resumed_replaces_only_its_own_lines(path):
    store = Store(1)
    await write(store, path, "a")
    store.numbers = [2]
    await write(store, path, "b", append=True)
    assert numbers(path.read_text()) == [1, 2]
    store.numbers = [2, 3]
    for more in ({}, {"append": True}):
        await write(store, path, "b", is_new=False, **more)
        assert numbers(path.read_text()) == [1, 2, 3]
    with pytest.raises(InvalidSetting, match="has the items of run b at its end"):
        await write(store, path, "a", is_new=False)
    store.numbers = [1, 4]
    await write(store, path, "a", is_new=False, overwrite=True)
    await write(store, path, "a", is_new=False)
    assert numbers(path.read_text()) == [1, 4]


async def test_appending_survives_a_follower_that_broke(path, monkeypatch):
    store = Store(1)
    await write(store, path, "a")
    store.numbers = [2]
    broken = [ExportFailed("items", "full", "wait")]
    whole = JsonlWriter.write

    def write_once(self, items):
        if broken:
            raise broken.pop()
        whole(self, items)

    monkeypatch.setattr(JsonlWriter, "write", write_once)
    await write(store, path, "b", append=True)
    assert numbers(path.read_text()) == [1, 2]


async def test_a_run_appends_to_a_csv_file_and_when_resumed_replaces_only_its_own_rows(tmp_path):
    path, store = tmp_path / "items.csv", Store(1)
    path.write_text("n\r\n7\r\n")
    for numbers_found in ([1], [1, 2]):
        store.numbers = numbers_found
        await write(store, path, "a", is_new=len(numbers_found) == 1, append=True)
    assert path.read_text().split() == ["n", "7", "1", "2"]
    await write(store, path, "a", is_new=False)
    assert path.read_text().split() == ["n", "7", "1", "2"]
    path.write_text(path.read_text() + "9\r\n")  # by another program
    with pytest.raises(InvalidSetting, match="has content that run a has not written"):
        await write(store, path, "a", is_new=False)
    assert path.read_text().split() == ["n", "7", "1", "2", "9"]


@pytest.mark.parametrize("name", ["items.parquet", "-"])
def test_only_rows_and_lines_can_be_appended_by_a_run(name, tmp_path):
    with pytest.raises(InvalidSetting, match=r"--append adds to \.jsonl"):
        ResultWriter(Store(), "r", name if name == "-" else str(tmp_path / name), "append")


def test_append_and_overwrite_exclude_each_other():
    with pytest.raises(InvalidSetting, match="Use one of them"):
        Output("items.jsonl", overwrite=True, append=True).mode(is_new=True)


def remove(path):
    path.unlink()


def replace(path):
    path.with_name("other").write_text('{"n":9}\n')
    path.with_name("other").replace(path)


def shorten(path):
    path.write_text("")


@pytest.mark.parametrize("harm", [remove, replace, shorten])
@pytest.mark.parametrize("more", [[], [3]])
async def test_a_file_that_another_program_has_changed_has_all_items_in_the_end(path, harm, more):
    store = Store(1, 2)
    async with ResultWriter(store, "r", str(path)) as results:
        await has(path, 1, 2)
        harm(path)
        store.numbers += more
        await results.finish(2 + len(more))
    assert numbers(path.read_text()) == [1, 2, *more]


async def test_a_file_that_another_run_has_taken_is_left_to_it_and_the_error_says_how_to_get_the_items(path):
    store = Store(1, 2)
    async with ResultWriter(store, "r", str(path)) as results:
        await has(path, 1, 2)
        async with ResultWriter(store, "other", str(path)) as taker:
            await has(path, 1, 2)
            store.numbers += [3]
            with pytest.raises(ExportFailed, match="run other writes to it too") as raised:
                await results.finish(3)
            store.numbers += [4]
            await taker.finish(4)
    assert numbers(path.read_text()) == [1, 2, 3, 4]
    told = str(results.with_command(raised.value, "sqlite:///shoal.db"))
    assert told.endswith("The items are safe in the queue. Run: shoal export r --to FILE")
