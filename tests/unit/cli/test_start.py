"""What a project file must say for `shoal start`."""

import pytest

from shoal.cli.start import Role, start
from shoal.core.errors import InvalidInput

QUEUE = 'queue = "sqlite:///q.db"\n'
BARE = '[scrapers.books]\nmodule = "books.py"\n'


@pytest.mark.parametrize(
    ("role", "text", "names", "said"),
    [
        (Role.COORDINATOR, None, None, "There is no shoal.toml in"),
        (Role.COORDINATOR, QUEUE, None, "shoal.toml: scrapers is missing; write [scrapers.books]"),
        (Role.COORDINATOR, QUEUE + BARE, None, "shoal.toml: scrapers.books.seeds is missing"),
        (
            Role.WORKER,
            QUEUE + '[workers]\nscrapers = ["boks"]\n' + BARE,
            None,
            "shoal.toml: workers.scrapers 'boks' is no scraper here. Did you mean 'books'?",
        ),
        (
            Role.COORDINATOR,
            QUEUE + '[coordinator]\nscrapers = ["boks"]\n' + BARE,
            None,
            "shoal.toml: coordinator.scrapers 'boks' is no scraper here. Did you mean 'books'?",
        ),
        (
            Role.COORDINATOR,
            QUEUE + BARE + 'seeds = { urls_fil = "x" }',
            None,
            "shoal.toml: scrapers.books.seeds.urls_fil is not known. Did you mean 'urls_file'?",
        ),
        (Role.WORKER, QUEUE + BARE, ["bookz"], "NAME 'bookz' is no scraper here. Did you mean 'books'?"),
        (
            Role.COORDINATOR,
            QUEUE + '[storage]\nresults = "all.jsonl"\n' + BARE + BARE.replace("books]", "films]"),
            ["books", "films"],
            "shoal.toml: storage.results is one file for several scrapers; put {scraper} or {run}",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_named_with_its_key(tmp_path, monkeypatch, role, text, names, said):
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
    with pytest.raises(InvalidInput, match=r"shoal.toml: queue is missing; write queue = \"postgresql"):
        start(role=Role.WORKER)
