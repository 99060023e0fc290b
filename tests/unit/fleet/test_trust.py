"""A project file that another user could have put there is not trusted."""

import os

import pytest

from shoal.fleet.project.file import Project, is_trusted, read_dotenv

STRANGER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def above(tmp_path, monkeypatch):
    """A folder above the current one, with a project file."""
    monkeypatch.delenv("SUDO_UID", raising=False)
    (tmp_path / "shoal.toml").write_text('queue = "sqlite:///stranger.db"')
    (tmp_path / "work").mkdir()
    return tmp_path


def test_ones_own_project_file_in_a_folder_above_is_obeyed(above):
    assert Project.find(above / "work").file == above / "shoal.toml"


@as_root
def test_another_users_project_file_in_a_folder_above_is_ignored_and_named(above, caplog):
    os.chown(above / "shoal.toml", STRANGER, -1)
    assert Project.find(above / "work").file is None
    assert (
        f"Ignored {above / 'shoal.toml'}: {above / 'shoal.toml'} belongs to another user (uid {STRANGER})"
        in caplog.text
    )


@as_root
def test_behind_another_users_project_file_the_next_one_above_is_found(above):
    inner = above / "work" / "deeper"
    inner.mkdir()
    (above / "work" / "shoal.toml").write_text("")
    os.chown(above / "work" / "shoal.toml", STRANGER, -1)
    assert Project.find(inner).file == above / "shoal.toml"


def test_a_world_writable_project_file_is_ignored(above, caplog):
    (above / "shoal.toml").chmod(0o666)
    assert Project.find(above / "work").file is None
    assert "chmod o-w" in caplog.text


@as_root
def test_in_the_folder_itself_a_file_of_the_folders_owner_is_obeyed_and_no_other(above):
    os.chown(above / "shoal.toml", STRANGER, -1)
    assert not is_trusted(above / "shoal.toml", above)
    os.chown(above, STRANGER, -1)
    assert is_trusted(above / "shoal.toml", above)
    assert not is_trusted(above / "shoal.toml", above / "work")


@as_root
def test_another_users_link_to_a_file_of_ours_is_ignored(above, tmp_path_factory):
    ours = tmp_path_factory.mktemp("ours") / "shoal.toml"
    (above / "shoal.toml").rename(ours)
    (above / "shoal.toml").symlink_to(ours)
    assert is_trusted(above / "shoal.toml", above)
    os.lchown(above / "shoal.toml", STRANGER, -1)
    assert not is_trusted(above / "shoal.toml", above)
    assert not is_trusted(above / "shoal.toml", above / "work")


def test_a_file_is_ignored_in_a_folder_above_whose_modules_another_user_may_write(above):
    above.chmod(0o1777)
    assert is_trusted(above / "shoal.toml", above)
    assert not is_trusted(above / "shoal.toml", above / "work")


@as_root
def test_a_file_of_ours_in_another_users_folder_above_is_ignored(above):
    os.chown(above, STRANGER, -1)
    assert is_trusted(above / "shoal.toml", above)
    assert not is_trusted(above / "shoal.toml", above / "work")


@as_root
def test_under_sudo_the_callers_own_files_are_obeyed(above, monkeypatch):
    os.chown(above / "shoal.toml", STRANGER, -1)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert is_trusted(above / "shoal.toml", above / "work")


@as_root
def test_another_users_dotenv_sets_nothing(above, monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    (above / ".env").write_text("SHOAL_QUEUE=redis://stranger")
    assert read_dotenv(above) == {"SHOAL_QUEUE": "redis://stranger"}
    os.chown(above / ".env", STRANGER, -1)
    assert read_dotenv(above) == {}


def test_a_dotenv_cannot_name_a_program_to_start_and_a_warning_says_so(above, caplog):
    (above / ".env").write_text("SHOAL_CHROMIUM=/tmp/fake\nSHOAL_WORKERS=2\nPATH=/tmp\nLD_PRELOAD=a.so")
    assert read_dotenv(above) == {"SHOAL_WORKERS": "2"}
    assert f"Ignored SHOAL_CHROMIUM, PATH, LD_PRELOAD of {above / '.env'}" in caplog.text
