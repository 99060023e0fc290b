"""The configuration of Tor, and the reasons in its output."""

from pathlib import Path

import pytest

from shoal.fetch.tor.program import command, failure_reason, torrc_text


def settings(folder="/tmp/x", version="0.4.9.11"):
    return [tuple(line.split(" ", 1)) for line in torrc_text(Path(folder), version).splitlines() if line]


def test_there_is_one_port_and_it_is_on_this_machine():
    doors = [(key, value) for key, value in settings() if key.endswith("Port") and value != "0"]
    assert doors == [("SocksPort", "127.0.0.1:auto IsolateSOCKSAuth IsolateDestAddr")]


def test_a_folder_may_have_any_name():
    assert ("DataDirectory", '"/tmp/a \\"b\\"\\\\c/data"') in settings('/tmp/a "b"\\c')


@pytest.mark.parametrize(
    ("version", "told"), [("0.4.7.16", False), ("0.4.8.1-alpha", True), ("0.4.9.11", True), ("0.5.0.1", True)]
)
def test_a_second_exit_is_refused_where_tor_knows_about_them(version, told):
    assert (("ConfluxEnabled", "0") in settings(version=version)) is told


def test_the_systems_own_defaults_are_never_read():
    words = command(Path("/usr/sbin/tor"), Path("/x/torrc"), Path("/x/defaults"))
    assert words == ["/usr/sbin/tor", "--defaults-torrc", "/x/defaults", "-f", "/x/torrc"]


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("Nov 15 [warn] Bad Bridge.\nNov 15 [err] Reading config failed--see warnings above.", "Bad Bridge."),
        ("killed", "killed"),
        ("", "no output"),
        ("[warn] " + "x" * 1000, "x" * 299 + "…"),
    ],
)
def test_a_complaint_is_one_line(said, meaning):
    assert failure_reason(said) == meaning
