"""A plugin that fails is named, with what to do, and leaves nothing."""

from dataclasses import dataclass

import pytest

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.export import open as opening
from shoal.export.contract import Exporter, Writer
from shoal.export.open import open_writer
from shoal.export.target import OutputTarget


class FailingWriter(Writer):
    """Raises in one method."""

    def __init__(self, target, fails):
        self._target, self._fails = target, fails
        self._do("open")

    def write(self, items):
        self._target.write(b"half")
        self._do("write")

    def close(self):
        self._do("close")
        self._target.commit()

    def discard(self):
        self._target.discard()
        self._do("discard")

    def _do(self, method):
        if method == self._fails:
            raise ValueError("disk on fire")


@pytest.fixture
def plugin(monkeypatch):
    def install(open_file):
        find = opening.EXPORTERS.find
        exporter = Exporter(open_file=open_file)
        monkeypatch.setattr(opening.EXPORTERS, "find", lambda name: exporter if name == "md" else find(name))
        monkeypatch.setattr(opening.EXPORTERS, "plugin_names", lambda: {"md": None})

    return install


@pytest.mark.parametrize("method", ["open", "write", "close"])
def test_a_plugin_that_raises_is_named_and_leaves_no_file(plugin, tmp_path, method):
    plugin(lambda target, options: FailingWriter(target, method))
    error = r"items.md could not be written: the exporter 'md' failed: ValueError: disk on fire \(test_plugin"
    with pytest.raises(ExportFailed, match=error), open_writer(tmp_path / "items.md") as writer:
        writer.write([])
    assert not list(tmp_path.iterdir())


@dataclass(frozen=True, slots=True)
class FrozenWriter(Writer):
    """Collects what it is asked to do."""

    target: OutputTarget
    calls: list[str]

    def write(self, items):
        self.calls.append("write")

    def close(self):
        self.calls.append("close")
        self.target.commit()

    def discard(self):
        self.calls.append("discard")


def test_a_frozen_writer_is_guarded(plugin, tmp_path):
    calls = []
    plugin(lambda target, options: FrozenWriter(target, calls))
    with open_writer(tmp_path / "items.md") as writer:
        writer.write([])
    assert calls == ["write", "close"]


def test_a_writer_that_is_returned_again_names_its_present_place(plugin, tmp_path):
    targets, opened = [], []

    def open_once(target, options):
        targets.append(target)
        opened.append(opened[0] if opened else FailingWriter(target, "write"))
        return opened[0]

    plugin(open_once)
    open_writer(tmp_path / "first.md")
    with pytest.raises(ExportFailed, match=r"second\.md could not be written"):
        open_writer(tmp_path / "second.md").write([])
    for target in targets:
        target.discard()


def test_a_plugin_whose_end_fails_too_does_not_hide_its_first_error(plugin, tmp_path):
    plugin(lambda target, options: FailingWriter(target, "discard"))
    with pytest.raises(ZeroDivisionError), open_writer(tmp_path / "items.md"):
        raise ZeroDivisionError


def test_a_plugin_that_returns_no_writer_is_named(plugin, tmp_path):
    plugin(lambda target, options: 7)
    with pytest.raises(ExportFailed, match="it returned a int, and must return a Writer"):
        open_writer(tmp_path / "items.md")


def test_errors_of_shoal_stay_as_they_are(plugin, tmp_path):
    def refuse(target, options):
        raise InvalidSetting("--columns", "must have a title")

    plugin(refuse)
    with pytest.raises(InvalidSetting, match="must have a title"):
        open_writer(tmp_path / "items.md")
