"""The configuration is read once, and every value knows where it was set."""

import os

import pytest

from shoal.cli.main import add_source
from shoal.core.errors import InvalidSetting, UnknownQueue
from shoal.core.values import read_duration, spelled
from shoal.fleet.command_hints import DEFAULT_QUEUE
from shoal.fleet.connect import connect
from shoal.fleet.project.config import VARIABLES, Config
from shoal.fleet.project.report import config_rows, setting_rows
from shoal.fleet.project.scrapers import load
from shoal.scrape.settings.scraper import SETTINGS

FILE = """\
queue = "sqlite:///file.db"

[workers]
count = 4
memory = "64 MB"

[scrapers.shop]
module = "shoal.demo.scraper:shop"
rate = "10/s"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shoal.toml").write_text(FILE)
    (tmp_path / ".env").write_text("SHOAL_WORKERS=8\nSHOAL_TOKENS=a-secret\nGITHUB_TOKENS=b\nHOME=/nowhere\n")
    return tmp_path


def test_the_environment_wins_over_dotenv_and_dotenv_over_the_file(folder):
    config = Config.read(folder, {"SHOAL_QUEUE": "redis://environment"})
    assert config.values["SHOAL_QUEUE"] == ("redis://environment", "SHOAL_QUEUE")
    assert config.values["SHOAL_WORKERS"] == ("8", ".env: SHOAL_WORKERS")
    assert config.values["SHOAL_MEMORY"].source == "shoal.toml: workers.memory"
    assert config.queue == "redis://environment"


def test_an_empty_variable_sets_nothing(folder, tmp_path_factory):
    assert Config.read(folder, {"SHOAL_QUEUE": ""}).queue == "sqlite:///file.db"
    assert Config.read(tmp_path_factory.mktemp("none"), {}).queue == DEFAULT_QUEUE


def test_reading_changes_no_environment_and_only_other_names_of_dotenv_are_exported(folder):
    given = {"SHOAL_QUEUE": "redis://environment", "HOME": "/home/me"}
    environment = dict(given)
    config = Config.read(folder, environment)
    assert environment == given
    config.export_others(environment)
    assert environment == given | {"SHOAL_TOKENS": "a-secret", "GITHUB_TOKENS": "b"}


def test_a_program_that_connects_has_the_variables_of_dotenv_too(folder, monkeypatch):
    monkeypatch.setattr(os, "environ", {"GITHUB_TOKENS": "given"})
    connect(folder=folder)
    assert os.environ == {"GITHUB_TOKENS": "given", "SHOAL_TOKENS": "a-secret", "HOME": "/nowhere"}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("count = 4", ("4", "shoal.toml: workers.count")),
        ("count = 4\nper_machine = 2", ("2", "shoal.toml: workers.per_machine")),
    ],
)
def test_the_number_per_machine_comes_before_that_of_all_machines(tmp_path, keys, found):
    (tmp_path / "shoal.toml").write_text(f"[workers]\n{keys}\n")
    assert Config.read(tmp_path, {}).values["SHOAL_WORKERS"] == found


def test_the_rows_show_every_value_with_its_source_and_no_secret(folder):
    environment = {"SHOAL_QUEUE": "redis://:hush@db", "SHOAL_WEB_TOKEN": "hush"}
    rows = {row["setting"]: row for row in config_rows(Config.read(folder, environment))}
    assert "hush" not in str(rows)
    assert rows["--queue"]["source"] == "SHOAL_QUEUE"
    assert rows["--workers"] == {"setting": "--workers", "value": "8", "source": ".env: SHOAL_WORKERS"}
    assert rows["--log-level"] == {"setting": "--log-level", "value": "info", "source": "default"}
    assert rows["SHOAL_WEB_TOKEN"]["value"] == "(set)"


def test_the_rows_of_a_scraper_tell_the_file_from_the_scraper_and_the_default(folder):
    config = Config.read(folder, {})
    rows = {row["setting"]: row for row in setting_rows(config, "shop", load(config.project, "shop"))}
    assert rows["delay"] == {"setting": "delay", "value": "100ms", "source": "shoal.toml: scrapers.shop.rate"}
    assert rows["rate"] == {"setting": "rate", "value": "10/s", "source": "shoal.toml: scrapers.shop.rate"}
    assert rows["retries"]["source"] == "scraper"
    assert rows["robots"]["source"] == "default"
    assert (rows["per_host"]["value"], rows["per_host"]["source"]) == (4, "default")


def test_the_rows_of_a_scraper_have_every_setting_as_people_write_it(tmp_path):
    (tmp_path / "shop.py").write_text(
        "from shoal import Scraper\nshop = Scraper('shop', rate=None, headers={'Authorization': 'hush'},"
        "proxies=['http://me:hush@proxy.test:1'], retry={'HttpStatus': {'delay': '90s'}}, pause='8-20s',"
        "scope=['*.a.test', 'b.test'], cache='10m', statuses=[404, 410], keep='30d')\n"
        "@shop.step\ndef page(page): ...\n"
    )
    config = Config.read(tmp_path, {})
    rows = {
        row["setting"]: row
        for row in setting_rows(config, "x", load(config.project, str(tmp_path / "shop.py")))
    }
    assert set(rows) == set(SETTINGS)
    assert "hush" not in str(rows)
    values = {name: row["value"] for name, row in rows.items()}
    assert (values["rate"], values["delay"], values["timeout"], values["lease"]) == ("none", "0s", "1m", "5m")
    assert (values["per_host"], rows["per_host"]["source"]) == (16, "default")  # without a gap
    assert (values["failed_pages"], values["keep"], values["pause"]) == ("7d", "30d", "8s-20s")
    assert (values["headers"], values["proxies"], values["tokens"]) == ("Authorization", "(set)", None)
    assert (values["scope"], values["statuses"]) == ("*.a.test, b.test", "404, 410")
    assert (values["cache"], values["max_body"]) == ("lifetime=10m", "32 MB")
    assert values["retry"] == "rules=HttpStatus=delay=1m30s"
    assert rows["scope"]["source"] == "scraper" and rows["robots"]["source"] == "default"


@pytest.mark.parametrize(
    ("text", "shown"), [("90s", "1m30s"), ("1.5s", "1.5s"), ("0.25", "250ms"), ("26h", "1d2h"), ("0s", "0s")]
)
def test_a_duration_is_written_as_it_may_be_read(text, shown):
    found = read_duration("it", text)
    assert spelled(found) == shown
    assert read_duration("it", shown) == found


@pytest.mark.parametrize(
    ("error", "source"),
    [
        (InvalidSetting("--memory", "must be a size"), "shoal.toml: workers.memory"),
        (InvalidSetting("--workers", "must be a number"), ".env: SHOAL_WORKERS"),
        (UnknownQueue("x", ["sqlite"]), "shoal.toml: queue"),
    ],
)
def test_an_error_says_where_a_value_that_was_not_typed_comes_from(folder, error, source):
    config = Config.read(folder, {})
    option = error.key if isinstance(error, InvalidSetting) else "--queue"
    assert add_source("Wrong.", error, ["shoal", "run"], config) == f"Wrong. ({option} is from {source})"
    assert add_source("Wrong.", error, ["shoal", "run", option, "1"], config) == "Wrong."
    assert add_source("Wrong.", error, ["shoal", f"{option}=1"], config) == "Wrong."


def test_an_option_without_a_variable_has_no_source(folder):
    error = InvalidSetting("--set", "takes KEY=VALUE")
    assert add_source("Wrong.", error, ["shoal"], Config.read(folder, {})) == "Wrong."


def test_every_variable_is_that_of_its_option():
    from typer.main import get_command

    from shoal.cli.registry import app_for

    def options(command):
        for below in getattr(command, "commands", {}).values():
            yield from options(below)
        for one in command.params:
            if isinstance(one.envvar, str):
                yield one.envvar, next(name for name in one.opts if name.startswith("--"))

    assert set(options(get_command(app_for("")))) == {(one.name, one.option) for one in VARIABLES}


def test_a_list_of_addresses_is_refused_and_a_cluster_named(tmp_path):
    (tmp_path / "shoal.toml").write_text('queue = ["redis://a", "redis://b"]')
    with pytest.raises(InvalidSetting, match=r"shoal.toml: queue takes one address.*cluster=true"):
        Config.read(tmp_path, {})
