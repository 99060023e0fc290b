"""The name of a server does not depend on who connects to it, and may be given."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.redact import passwords_in
from shoal.queue.addresses import addresses_in
from shoal.queue.namespace import shown_queue, with_namespace
from shoal.queue.open import file_of, is_there
from shoal.queue.sharded.names import server_names

TWO = "postgresql://me:secret@a:5432/db?sslmode=require postgresql://b/db"


def test_a_new_password_or_option_does_not_change_the_name():
    assert list(server_names(addresses_in(TWO))) == ["a:5432/db", "b/db"]
    assert list(server_names(["postgresql://you:other@a:5432/db", "postgresql://b/db"])) == [
        "a:5432/db",
        "b/db",
    ]


def test_a_server_that_moved_keeps_its_name():
    assert server_names(["postgresql://new/db#a:5432/db"]) == {"a:5432/db": "postgresql://new/db"}


def test_two_namespaces_of_one_server_are_two_servers():
    named = server_names(["postgresql://a/db?namespace=x", "postgresql://a/db?namespace=y"])
    assert list(named) == ["a/db?x", "a/db?y"]


def test_a_server_that_is_named_twice_is_refused():
    with pytest.raises(InvalidSetting, match="two servers called 'a/db'"):
        server_names(["postgresql://a/db", "postgresql://me@a/db"])


def test_a_space_in_the_name_of_a_file_begins_no_address():
    assert addresses_in("sqlite:///my file.db") == ["sqlite:///my file.db"]
    assert addresses_in(" redis://a \n redis://b ") == ["redis://a", "redis://b"]


def test_no_password_is_shown_and_all_are_known_as_secrets():
    address = "postgresql://me:one@a/db postgresql://me:two@b/db"
    assert shown_queue(address) == "postgresql://me:…@a/db postgresql://me:…@b/db"
    assert set(passwords_in(address)) == {"one", "two"}


def test_a_namespace_is_added_to_every_server():
    assert (
        with_namespace("redis://a#x redis://b?c=1", "n")
        == "redis://a?namespace=n#x redis://b?c=1&namespace=n"
    )


def test_a_queue_in_several_files_is_no_single_file(tmp_path):
    address = f"sqlite:///{tmp_path}/a.db sqlite:///{tmp_path}/b.db"
    assert file_of(address) is None
    assert not is_there(address)
    (tmp_path / "b.db").touch()
    assert is_there(address)
