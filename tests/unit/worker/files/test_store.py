"""Files in a folder: complete or not there, never replaced, and no leftovers."""

import errno
import os
import subprocess
import sys
from hashlib import sha256

import pytest

from shoal.core.errors import StorageFailed
from shoal.worker.files.store import INCOMPLETE, LocalFiles


def put(store, path, data):
    spool = store.open_spool()
    spool.write(data)
    return store.keep(spool, path, "")


def names(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_a_file_gets_its_name_when_it_is_complete(tmp_path):
    store = LocalFiles(tmp_path / "files")
    spool = store.open_spool()
    spool.write(b"half")
    assert all(name.startswith(INCOMPLETE) for name in names(tmp_path / "files"))
    spool.write(b" and half")
    assert spool.sha256 == sha256(b"half and half").hexdigest()
    assert store.keep(spool, "a/b.txt", "") == ("a/b.txt", True)
    assert names(tmp_path / "files") == ["a/b.txt"]
    assert store.has("a/b.txt", 13) and not store.has("a/b.txt", 12) and not store.has("c", 0)


def test_the_same_content_is_stored_once_and_other_content_never_replaces_a_file(tmp_path):
    store = LocalFiles(tmp_path)
    assert put(store, "logo.png", b"one") == ("logo.png", True)
    assert put(store, "logo.png", b"one") == ("logo.png", False)
    other, is_new = put(store, "logo.png", b"two")
    assert is_new and other == f"logo-{sha256(b'two').hexdigest()[:8]}.png"
    assert put(store, "logo.png", b"two") == (other, False)
    assert (tmp_path / "logo.png").read_bytes() == b"one" and len(names(tmp_path)) == 2


def test_a_name_that_is_a_folder_of_others_is_not_used(tmp_path):
    store = LocalFiles(tmp_path)
    put(store, "a/b", b"one")
    assert put(store, "a", b"two")[0].startswith("a-")
    assert put(store, "a/b/c", b"three")[0] == sha256(b"three").hexdigest()


def test_a_download_that_is_begun_again_starts_empty(tmp_path):
    store = LocalFiles(tmp_path)
    spool = store.open_spool()
    spool.write(b"cut of")
    spool.restart()
    spool.write(b"x")
    store.keep(spool, "x", "")
    assert (tmp_path / "x").read_bytes() == b"x"


def test_leftovers_of_a_killed_process_are_removed_and_files_in_use_are_not(tmp_path):
    store = LocalFiles(tmp_path)
    mine = store.open_spool()
    code = (
        "import os, sys, pathlib; from shoal.worker.files.store import LocalFiles\n"
        "spool = LocalFiles(pathlib.Path(sys.argv[1])).open_spool(); spool.write(b'half'); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60).returncode == 9
    assert len(names(tmp_path)) == 2
    assert store.remove_leftovers() == 1
    assert store.keep(mine, "mine", "") == ("mine", True)
    assert names(tmp_path) == ["mine"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="file could not be written: Not a directory"):
        LocalFiles(tmp_path / "file").open_spool()


def test_a_full_disk_is_found_by_the_check(tmp_path, monkeypatch):
    def fill(file, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(StorageFailed, match=r"No space left on device\. Free disk space, or choose another"):
        LocalFiles(tmp_path).check()
    assert list((tmp_path / ".incomplete").iterdir()) == []
