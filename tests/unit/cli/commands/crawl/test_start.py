"""What a project file must contain for `shoal start`."""

import pytest

from shoal.cli.commands.crawl.start import Role, start
from shoal.core.errors import InvalidInput

QUEUE = 'queue = "sqlite:///q.db"\n'
BARE = '[scrapers.books]\nmodule = "books.py"\n'


@pytest.mark.parametrize(
    ("role", "text", "names", "said"),
    [
        (Role.COORDINATOR, None, None, "No shoal.toml in"),
        (Role.COORDINATOR, QUEUE, None, "shoal.toml: scrapers is missing; add [scrapers.books]"),
        (Role.COORDINATOR, QUEUE + BARE, None, "shoal.toml: scrapers.books.seeds is missing"),
        (
            Role.WORKER,
            QUEUE + '[workers]\nscrapers = ["boks"]\n' + BARE,
            None,
            "shoal.toml: workers.scrapers 'boks' is not a scraper of this project. Did you mean 'books'?",
        ),
        (
            Role.COORDINATOR,
            QUEUE + '[coordinator]\nscrapers = ["boks"]\n' + BARE,
            None,
            "shoal.toml: coordinator.scrapers 'boks' is not a scraper of this project. Did you mean 'books'?",
        ),
        (
            Role.COORDINATOR,
            QUEUE + BARE + 'seeds = { urls_fil = "x" }',
            None,
            "shoal.toml: scrapers.books.seeds.urls_fil is not known. Did you mean 'urls_file'?",
        ),
        (
            Role.WORKER,
            QUEUE + BARE,
            ["bookz"],
            "NAME 'bookz' is not a scraper of this project. Did you mean 'books'?",
        ),
        (
            Role.COORDINATOR,
            QUEUE + '[storage]\nresults = "all.jsonl"\n' + BARE + BARE.replace("books]", "films]"),
            ["books", "films"],
            "shoal.toml: storage.results is one file for several scrapers; add {scraper} or {run}",
        ),
    ],
)
def test_a_missing_or_wrong_setting_is_named_with_its_key(tmp_path, monkeypatch, role, text, names, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books.py").write_text("from shoal import Scraper\nbooks = Scraper('books')\n")
    if text is not None:
        (tmp_path / "shoal.toml").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        start(role=role, names=names, queue="sqlite:///q.db")
    assert str(caught.value).startswith(said)


def test_a_cluster_needs_a_queue(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shoal.toml").write_text(BARE)
    with pytest.raises(InvalidInput, match=r"shoal.toml: queue is missing; add queue = \"postgresql"):
        start(role=Role.WORKER)
