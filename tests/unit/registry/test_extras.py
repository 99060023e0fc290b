"""What a message says to type when an extra is missing, by how Shoal was installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.registry.extras import command_for, install_command

GIT = {"vcs": "git", "commit_id": "0a1b"}


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'shoal[postgres]'"),
        (
            {"url": "https://example.com/shoal.git", "vcs_info": GIT},
            "pip install 'shoal[postgres] @ git+https://example.com/shoal.git@0a1b'",
        ),
        (
            {"url": "file:///tmp/shoal-1.0.whl", "archive_info": {}},
            "pip install 'shoal[postgres] @ file:///tmp/shoal-1.0.whl'",
        ),
        ({"url": "file:///no/such/folder", "dir_info": {}}, "pip install 'shoal[postgres]'"),
        ({"unknown": 1}, "pip install 'shoal[postgres]'"),
    ],
    ids=["index", "git", "wheel", "removed checkout", "unknown"],
)
def test_the_command_names_where_shoal_came_from(origin, command):
    assert command_for("postgres", origin) == command


@pytest.mark.parametrize("is_editable", [True, False])
def test_from_a_checkout_the_command_installs_from_its_folder(tmp_path, is_editable):
    folder = tmp_path / "my shoal"
    folder.mkdir()
    origin = {"url": folder.as_uri(), "dir_info": {"editable": True} if is_editable else {}}
    option = "-e " if is_editable else ""
    assert command_for("redis", origin) == f"pip install {option}'{folder}[redis]'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "pip install 'shoal[web]'"),
        ('{"url": "file:///tmp", "dir_info": {"editable": true}}', "pip install -e '/tmp[web]'"),
        ("damaged", "pip install 'shoal[web]'"),
    ],
    ids=["from an index", "from a folder", "damaged"],
)
def test_the_origin_is_read_from_the_metadata_of_the_package(tmp_path, monkeypatch, text, expected):
    about = tmp_path / "shoal-9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shoal\nVersion: 9\n")
    if text:
        (about / "direct_url.json").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert install_command("web") == expected


def test_a_checkout_that_is_not_installed_is_found_by_its_folder(tmp_path):
    source = Path(__file__).parents[3] / "src"
    code = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p or p.endswith('deps')]\n"
        "from shoal.registry.extras import install_command; print(install_command('web'))"
    )
    (tmp_path / "deps").mkdir()
    msgspec = Path(sys.modules["msgspec"].__file__).parent
    (tmp_path / "deps" / "msgspec").symlink_to(msgspec)
    path = os.pathsep.join([str(source), str(tmp_path / "deps")])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stdout == f"pip install -e '{source.parent}[web]'\n", done.stderr
