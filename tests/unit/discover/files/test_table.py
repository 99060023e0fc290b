"""URL files with columns."""

import csv

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import Task
from shoal.discover.files.files import UrlFile
from shoal.discover.files.lines import MAX_LINE
from shoal.discover.files.table import Columns
from shoal.discover.source import Refusal


@pytest.fixture
def read(tmp_path):
    def read(content, name="urls.csv", **columns):
        path = tmp_path / name
        path.write_text(content, newline="")
        return list(UrlFile(str(path), columns=Columns(**columns)))

    return read


def urls(found):
    return [each.url for each in found]


@pytest.mark.parametrize("name", ["url", "URL", "link", "Href", " url "])
def test_the_column_with_the_urls_is_known_by_its_name(read, name):
    assert urls(read(f"id,{name}\n1,https://a.test/1\n2,https://a.test/2\n")) == [
        "https://a.test/1",
        "https://a.test/2",
    ]


def test_url_wins_over_link_and_link_over_href(read):
    assert urls(read("href,link,url\nx,y,https://a.test/\n")) == ["https://a.test/"]
    assert urls(read("href,link\nx,https://a.test/\n")) == ["https://a.test/"]


def test_the_only_column_needs_no_name(read):
    assert urls(read("address\nhttps://a.test/\n")) == ["https://a.test/"]


def test_a_table_without_a_header_loses_no_row(read):
    assert urls(read("https://a.test/1\nhttps://a.test/2\n")) == ["https://a.test/1", "https://a.test/2"]
    (task,) = read("7,https://a.test/1\n", url=2, payload=True)
    assert task == Task(url="https://a.test/1", payload={"column_1": "7"})


@pytest.mark.parametrize("column", ["address", "2", 2])
def test_a_column_goes_by_name_or_by_number(read, column):
    assert urls(read("id,address\n1,https://a.test/\n", url=column)) == ["https://a.test/"]


def test_a_column_that_is_not_clear_is_an_error_that_lists_them(read):
    with pytest.raises(
        InvalidSetting, match=r"column is not clear: .*urls.csv has id, address, title.*--column id"
    ):
        read("id,address,title\n1,https://x/,t\n")


def test_a_column_that_is_not_there_is_an_error_with_what_was_meant(read):
    with pytest.raises(
        InvalidSetting, match=r"column 'adress' is not a column of .*Did you mean 'address'\?"
    ):
        read("id,address\n1,https://a.test/\n", url="adress")
    with pytest.raises(
        InvalidSetting, match=r"partition '3' is not a column .*A number from 1 to 2 also works"
    ):
        read("id,url\n1,https://a.test/\n", partition=3)


def test_named_columns_become_payload_and_may_serve_twice(read):
    content = "url,state,title,rank\nhttps://a.test/1,CA,One,3\n"
    assert read(content, partition="state", payload=["state", "title"]) == [
        Task(url="https://a.test/1", partition="CA", payload={"state": "CA", "title": "One"})
    ]
    with pytest.raises(InvalidSetting, match=r"payload 'titel' is not a column .*Did you mean 'title'"):
        read(content, payload=["titel"])


def test_columns_give_partition_priority_and_key_and_the_others_payload(read):
    content = "url,state,rank,id,title\nhttps://a.test/1,CA,9,k1,One\nhttps://a.test/2,,,,Two\n"
    assert read(content, partition="state", priority="rank", key="id", payload=True) == [
        Task(url="https://a.test/1", partition="CA", priority=9, key="k1", payload={"title": "One"}),
        Task(url="https://a.test/2", payload={"title": "Two"}),
    ]


def test_without_payload_the_other_columns_are_left_out(read):
    assert read("url,title\nhttps://a.test/1,One\n") == [Task(url="https://a.test/1")]


def test_rows_may_be_payloads_without_a_url(read):
    assert read("user,page\nann,1\n", url="-") == [Task(payload={"user": "ann", "page": "1"})]


def test_a_priority_that_is_none_refuses_its_row(read):
    (refusal, task) = read("url,rank\nhttps://a.test/1,high\nhttps://a.test/2,3\n", priority="rank")
    assert refusal.reason == "priority must be a whole number from 0 to 9, got 'high'"
    assert refusal.text == "https://a.test/1"
    assert task.priority == 3


def test_the_place_of_a_row_is_its_first_line(read):
    content = 'title,url\n"two\nlines",https://a.test/1\n\n"again\ntwo",nonsense\nx,junk\n'
    _, two, junk = read(content)
    assert two.where.endswith("urls.csv:5")
    assert junk.where.endswith("urls.csv:7")


def test_quotes_protect_commas_quotes_and_ends_of_lines(read):
    content = 'url,title\n"https://a.test/?x=1,2","a ""b""\r\nc"\n'
    (task,) = read(content, payload=True)
    assert task == Task(url="https://a.test/?x=1,2", payload={"title": 'a "b"\nc'})


def test_a_url_with_a_bare_comma_is_refused_rather_than_cut(read):
    (refusal,) = read("url\nhttps://a.test/?x=1,2\n")
    assert refusal.reason == "it has 2 cells, the first row 1; put quotes around a cell with a comma"


def test_empty_cells_at_the_end_and_short_rows_do_no_harm(read):
    assert urls(read("url,a,b\nhttps://a.test/1\nhttps://a.test/2,x,y,,\n")) == [
        "https://a.test/1",
        "https://a.test/2",
    ]
    (refusal,) = read("a,url\nx\n")
    assert refusal.reason.startswith("it is empty")


def test_a_quote_left_open_is_named_and_costs_only_its_rows(read):
    rows = "".join(f"https://a.test/{number},x\n" for number in range(10))
    (*tasks, refusal) = read(f'url,t\n{rows}https://a.test/x,"open\nhttps://a.test/y,z\n')
    assert len(tasks) == 10
    assert refusal.reason == "a quote is not closed"
    assert refusal.where.endswith(":12")


def test_a_quote_left_open_in_a_large_file_does_not_swallow_it(read):
    tail = "".join(f"https://a.test/{number}\n" for number in range(20_000))
    found = read(f'url\n"open\n{tail}')
    refusals = [each for each in found if isinstance(each, Refusal)]
    assert (
        refusals[0].reason
        == f"a cell has more than {csv.field_size_limit():,} characters; is a quote left open?"
    )
    assert len(refusals) == 1
    assert len(found) > 10_000


def test_a_row_without_end_is_refused(read):
    cells = '"x\n",' * (MAX_LINE // 4)
    task, refusal, *rest = read(f"url\nhttps://a.test/1\n{cells}\n")
    assert task.url == "https://a.test/1"
    assert "the row has more than 1,048,576 characters" in refusal.reason
    assert all(isinstance(each, Refusal) for each in rest)


def test_broken_quotes_are_refused(read):
    (refusal, task) = read('url\n"https://a.test/"x\nhttps://a.test/1\n')
    assert refusal.reason.startswith("its quotes are not valid CSV")
    assert task.url == "https://a.test/1"


@pytest.mark.parametrize(("name", "sign"), [("urls.tsv", "\t"), ("urls.csv", ";"), ("urls.csv", "\t")])
def test_tabs_and_semicolons_part_cells_too(read, name, sign):
    content = f"id{sign}url{sign}state\n1{sign}https://a.test/?a=1,2{sign}CA\n"
    assert read(content, name, partition="state") == [Task(url="https://a.test/?a=1,2", partition="CA")]


def test_a_sign_between_cells_may_be_named(read):
    assert urls(read("https://a.test/;1\n", delimiter=";", url=1)) == ["https://a.test/"]


def test_an_empty_table_holds_nothing(read):
    assert read("") == []
    assert read("url\n") == []
