"""Names of plugins are found in package metadata, loaded when they are used, and never replace others."""

import sys

import pytest

from shoal.core.errors import PluginFailed
from shoal.registry.registry import Registry
from tests.packages import install

GROUP = "shoal.exporters"


def read(value):
    if not isinstance(value, str):
        raise TypeError("it must be text")
    return value


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def registry():
    return Registry(GROUP, "exporter", {"own": lambda: "built in"}, read)


def test_a_plugin_is_imported_only_when_it_is_used(folder, registry):
    install(folder, "one", {GROUP: {"md": "reg_one:thing"}}, reg_one="thing = 'loaded'")
    assert registry.names() == ["own", "md"]
    assert "reg_one" not in sys.modules
    assert registry.find("md") == "loaded"
    assert registry.find("nothing") is None


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_like_this", "ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("other = 1", "AttributeError"),
        ("thing = 7", "TypeError: it must be text"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_named_when_it_is_used_and_listed(folder, registry, code, reason):
    install(folder, "broken", {GROUP: {"md": "reg_broken:thing"}}, reg_broken=code)
    sys.modules.pop("reg_broken", None)
    assert registry.find("own") == "built in"
    with pytest.raises(PluginFailed) as caught:
        registry.find("md")
    assert "The exporter 'md' of the package broken 1.0 cannot be used" in str(caught.value)
    assert reason in str(caught.value) and str(caught.value).endswith("shoal plugins")
    (state,) = registry.plugins()
    assert reason in state.problem


def test_a_plugin_cannot_replace_what_is_built_in(folder, registry):
    install(folder, "greedy", {GROUP: {"own": "reg_greedy:thing"}}, reg_greedy="thing = 'stolen'")
    assert registry.find("own") == "built in"
    (state,) = registry.plugins()
    assert "is built in and cannot be replaced" in state.problem
    assert registry.names() == ["own"]


def test_of_two_plugins_with_one_name_neither_is_used(folder, registry):
    install(folder, "one", {GROUP: {"md": "reg_a:thing"}}, reg_a="thing = 'a'")
    install(folder, "two", {GROUP: {"MD": "reg_b:thing"}}, version="2.1", reg_b="thing = 'b'")
    with pytest.raises(PluginFailed, match=r"registered more than once, by one 1\.0 and two 2\.1; uninstall"):
        registry.find("md")
    assert len([state for state in registry.plugins() if state.problem]) == 2


def test_a_package_with_damaged_metadata_has_a_name_in_messages(folder, registry):
    install(folder, "odd", {GROUP: {"md": "reg_missing:thing"}})
    (folder / "odd-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PluginFailed, match=r"of the package .* cannot be used"):
        registry.find("md")
