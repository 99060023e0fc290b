"""How a scraper is loaded, and the errors if it cannot be."""

import pickle
import sys

import pytest

from shoal.core.errors import InvalidInput
from shoal.scrape.load import load_scraper

BOOKS = """
from dataclasses import dataclass
from shoal.scrape.scraper import Scraper

@dataclass
class Book:
    title: str

books = Scraper("books", rate="5/s")

@books.step(item=Book)
def book(page):
    yield Book(page.text("h1"))
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="books.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


def test_a_script_that_starts_a_run_when_it_is_imported_gets_the_line_to_write(tmp_path):
    (tmp_path / "own.py").write_text("raise RuntimeError('asyncio.run() cannot be called')")
    with pytest.raises(InvalidInput, match="under: if __name__ == "):
        load_scraper(str(tmp_path / "own.py"))


def test_the_one_scraper_of_a_file_is_it(write):
    scraper = load_scraper(write(BOOKS))
    assert scraper.name == "books"
    assert scraper.parse("<h1>One</h1>").items == [{"title": "One"}]


def test_a_scraper_can_be_named_by_its_variable_or_its_own_name(write):
    path = write(BOOKS + "films = Scraper('all films')\n")
    assert load_scraper(f"{path}:books").name == "books"
    assert load_scraper(f"{path}:films").name == load_scraper(f"{path}:all films").name == "all films"


def test_several_scrapers_are_listed_to_choose_from(write):
    path = write(BOOKS + "films = Scraper('films')\n")
    with pytest.raises(InvalidInput, match=f"has several scrapers. Name one: {path}:books, {path}:films"):
        load_scraper(path)


def test_two_names_for_one_scraper_are_one_scraper(write):
    assert load_scraper(write(BOOKS + "default = books\n")).name == "books"


def test_a_file_without_a_scraper_says_what_to_write(write):
    with pytest.raises(InvalidInput, match=r"has no scraper. Write in it: books = Scraper\('books'\)"):
        load_scraper(write("x = 1"))
    with pytest.raises(InvalidInput, match=r"no scraper called 'bocks'. Did you mean .*books.py:books"):
        load_scraper(write(BOOKS) + ":bocks")
    with pytest.raises(InvalidInput, match="It has books"):
        load_scraper(write(BOOKS) + ":zzz")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"There is no file .*nothing.py"):
        load_scraper(f"{tmp_path}/nothing.py")
    with pytest.raises(InvalidInput, match="There is no file"):
        load_scraper(f"{tmp_path}/nothing.py:books")
    with pytest.raises(InvalidInput, match="There is no file"):
        load_scraper(f"{tmp_path}/")


def test_a_syntax_error_is_named_with_its_line(write):
    with pytest.raises(InvalidInput, match=r"books.py is not valid Python: line 2: "):
        load_scraper(write("x = 1\ndef broken(:\n"))
    with pytest.raises(InvalidInput, match=r"books.py"):
        load_scraper(write("x = '\0'"))


def test_an_error_while_importing_is_named_with_its_line(write):
    with pytest.raises(
        InvalidInput, match=r"books.py could not be imported, line 3: ZeroDivisionError: division"
    ):
        load_scraper(write("x = 1\n\ny = x / 0\n"))
    with pytest.raises(InvalidInput, match="line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"):
        load_scraper(write("import nowhere_at_all\n"))
    with pytest.raises(InvalidInput, match="line 1: SystemExit: 3"):
        load_scraper(write("raise SystemExit(3)\n"))
    with pytest.raises(InvalidInput, match="line 2: InvalidSetting: raet is not a setting"):
        load_scraper(write("from shoal.scrape.scraper import Scraper\nScraper('x', raet=1)\n"))


def test_a_failed_import_leaves_nothing_behind(write):
    before, path = set(sys.modules), list(sys.path)
    with pytest.raises(InvalidInput):
        load_scraper(write("1 / 0"))
    assert set(sys.modules) == before
    assert sys.path == path


def test_a_file_may_import_its_neighbours(write):
    write("LIMIT = 5\n", "neighbour_of_books.py")
    path = list(sys.path)
    scraper = load_scraper(
        write("import neighbour_of_books\n" + BOOKS + "books.limit = neighbour_of_books.LIMIT\n")
    )
    assert scraper.limit == 5
    assert sys.path == path
    del sys.modules["neighbour_of_books"]


def test_what_a_file_defines_survives_pickling_and_has_a_stable_home(write):
    path = write(BOOKS)
    module = sys.modules[load_scraper(path).steps["book"].function.__module__]
    book = module.Book("One")
    assert pickle.loads(pickle.dumps(book)) == book
    name = module.__name__
    assert load_scraper(path).steps["book"].function.__module__ == name


def test_files_of_one_name_in_two_folders_do_not_mix(write):
    one = load_scraper(write(BOOKS.replace('Scraper("books"', 'Scraper("one"'), "a/books.py"))
    two = load_scraper(write(BOOKS.replace('Scraper("books"', 'Scraper("two"'), "b/books.py"))
    assert (one.name, two.name) == ("one", "two")
    assert one.first.function.__module__ != two.first.function.__module__


def test_a_module_is_imported_from_the_working_folder(write, monkeypatch, tmp_path):
    write(BOOKS, "shelf_for_tests/books.py")
    monkeypatch.chdir(tmp_path)
    assert load_scraper("shelf_for_tests.books:books").name == "books"
    assert load_scraper("shelf_for_tests.books").name == "books"
    for name in ("shelf_for_tests.books", "shelf_for_tests"):
        del sys.modules[name]


def test_a_missing_module_says_how_to_name_a_file():
    with pytest.raises(InvalidInput, match=r"There is no module 'bookz'. For a file, write: bookz.py"):
        load_scraper("bookz")
    with pytest.raises(InvalidInput, match=r"There is no module 'shoal.bookz'. Check its spelling"):
        load_scraper("shoal.bookz:books")
    with pytest.raises(InvalidInput):
        load_scraper("")
    with pytest.raises(InvalidInput):
        load_scraper("..books:x")
