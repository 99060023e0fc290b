"""Decoding of pages: a table of documents, and the promise that nothing is raised."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.http import Headers, Response
from shoal.core.model import Task
from shoal.scrape.page import Page
from shoal.scrape.parsing import SAMPLE, known_name, read_text

GERMAN = "Größe und Übermaß, schön für alle Häuser"
RUSSIAN = "Съешь же ещё этих мягких французских булок, да выпей чаю"
JAPANESE = "これは日本語の文章です。漢字とひらがなとカタカナを含みます。"
CHINESE = "这是一个用中文写的句子。里面有很多汉字。"
KOREAN = "이것은 한국어로 쓴 문장입니다. 한글이 많이 있습니다."
GREEK = "γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί"
POLISH = "Zażółć gęślą jaźń, proszę państwa"


def html(label):
    return f"text/html; charset={label}"


def meta(label, text, encoding):
    return f'<meta charset="{label}"><p>{text}'.encode(encoding)


def equiv(label, text, encoding):
    return f'<meta http-equiv="Content-Type" content="text/html; charset={label}"><p>{text}'.encode(encoding)


# what it is: (bytes, header, what must be in the text, the encoding recorded)
DOCUMENTS = {
    "empty": (b"", "", "", "utf-8"),
    "ascii": (b"plain", "", "plain", "utf-8"),
    # declared in the header
    "header utf-8": (GERMAN.encode(), html("utf-8"), GERMAN, "utf-8"),
    "header UTF8 in quotes": (GERMAN.encode(), 'text/html;charset="UTF8"', GERMAN, "utf-8"),
    "header with spaces": (
        RUSSIAN.encode("cp1251"),
        "text/html ; Charset = windows-1251 ;x=y",
        RUSSIAN,
        "windows-1251",
    ),
    "header latin-1 means windows-1252": (b"\x80 5", html("iso-8859-1"), "€ 5", "windows-1252"),
    "header koi8-r": (RUSSIAN.encode("koi8-r"), html("KOI8-R"), RUSSIAN, "koi8-r"),
    "header shift_jis": (JAPANESE.encode("cp932"), html("Shift_JIS"), JAPANESE, "shift_jis"),
    "header x-sjis": (JAPANESE.encode("cp932"), html("x-sjis"), JAPANESE, "shift_jis"),
    "header euc-jp": (JAPANESE.encode("euc-jp"), html("euc-jp"), JAPANESE, "euc-jp"),
    "header iso-2022-jp": (JAPANESE.encode("iso2022_jp"), html("iso-2022-jp"), JAPANESE, "iso-2022-jp"),
    "header gb2312 means gbk": (CHINESE.encode("gbk"), html("gb2312"), CHINESE, "gbk"),
    "header gb18030": (CHINESE.encode("gb18030"), html("gb18030"), CHINESE, "gb18030"),
    "header big5": ("這是中文".encode("big5"), html("big5"), "這是中文", "big5"),
    "header euc-kr": (KOREAN.encode("euc-kr"), html("euc-kr"), KOREAN, "euc-kr"),
    "header ks_c_5601-1987": (KOREAN.encode("cp949"), html("ks_c_5601-1987"), KOREAN, "euc-kr"),
    "header iso-8859-2": (POLISH.encode("iso8859-2"), html("latin2"), POLISH, "iso-8859-2"),
    "header windows-1253": (GREEK.encode("cp1253"), html("windows-1253"), GREEK, "windows-1253"),
    "header ibm866": (RUSSIAN.encode("cp866"), html("cp866"), RUSSIAN, "ibm866"),
    "header macintosh": ("é".encode("mac-roman"), html("macintosh"), "é", "macintosh"),
    "header utf-16le": (JAPANESE.encode("utf-16le"), html("utf-16le"), JAPANESE, "utf-16le"),
    "header utf-16be": (GERMAN.encode("utf-16be"), html("utf-16be"), GERMAN, "utf-16be"),
    "header utf-16 without a mark is little-endian": (
        GERMAN.encode("utf-16le"),
        html("utf-16"),
        GERMAN,
        "utf-16le",
    ),
    # retired by the standard, read all the same
    "header iso-2022-kr": (KOREAN.encode("iso2022_kr"), html("iso-2022-kr"), KOREAN, "iso-2022-kr"),
    "header hz-gb-2312": (CHINESE.encode("hz"), html("hz-gb-2312"), CHINESE, "hz-gb-2312"),
    # marks
    "mark utf-8": (codecs.BOM_UTF8 + GERMAN.encode(), "", GERMAN, "utf-8"),
    "mark utf-8 against the header": (codecs.BOM_UTF8 + GERMAN.encode(), html("shift_jis"), GERMAN, "utf-8"),
    "mark utf-16le": (codecs.BOM_UTF16_LE + GERMAN.encode("utf-16le"), "", GERMAN, "utf-16le"),
    "mark utf-16be": (codecs.BOM_UTF16_BE + GERMAN.encode("utf-16be"), "", GERMAN, "utf-16be"),
    "mark utf-16 against the header": (
        codecs.BOM_UTF16_LE + "<p>ü".encode("utf-16le"),
        html("utf-8"),
        "<p>ü",
        "utf-16le",
    ),
    "mark utf-32le": (codecs.BOM_UTF32_LE + GERMAN.encode("utf-32le"), "", GERMAN, "utf-32le"),
    "mark utf-32be": (codecs.BOM_UTF32_BE + GERMAN.encode("utf-32be"), "", GERMAN, "utf-32be"),
    "mark utf-16 and half a character": (codecs.BOM_UTF16_LE + b"a\x00b", "", "a", "utf-16le"),
    "mark utf-32 and half a character": (codecs.BOM_UTF32_LE + b"a\x00\x00\x00b\x00", "", "a", "utf-32le"),
    "only a mark": (codecs.BOM_UTF8, "", "", "utf-8"),
    "markup in utf-16 without a mark": ("<p>ü</p>".encode("utf-16le"), "", "<p>ü</p>", "utf-16le"),
    "markup in utf-16be without a mark": ("<p>ü</p>".encode("utf-16be"), "", "<p>ü</p>", "utf-16be"),
    # declared in the page
    "meta utf-8": (meta("utf-8", GERMAN, "utf-8"), "", GERMAN, "utf-8"),
    "meta windows-1251": (meta("windows-1251", RUSSIAN, "cp1251"), "text/html", RUSSIAN, "windows-1251"),
    "meta in upper case": (
        meta("x", RUSSIAN, "cp1251").upper().replace(b'"X"', b"WINDOWS-1251"),
        "",
        "",
        "windows-1251",
    ),
    "meta http-equiv": (equiv("euc-kr", KOREAN, "euc-kr"), "", KOREAN, "euc-kr"),
    "meta utf-16 is a lie": (meta("utf-16", GERMAN, "utf-8"), "", GERMAN, "utf-8"),
    "meta in a comment is none": (
        b"<!-- <meta charset=shift_jis> -->" + GERMAN.encode(),
        "",
        GERMAN,
        "utf-8",
    ),
    "meta behind the header": (
        meta("shift_jis", RUSSIAN, "cp1251"),
        html("windows-1251"),
        RUSSIAN,
        "windows-1251",
    ),
    "meta further down": (b" " * 3000 + meta("windows-1251", RUSSIAN, "cp1251"), "", RUSSIAN, "windows-1251"),
    "xml declaration": (
        b'<?xml version="1.0" encoding="iso-8859-2"?><p>' + POLISH.encode("iso8859-2"),
        "",
        POLISH,
        "iso-8859-2",
    ),
    # unknown and forbidden names
    "unknown name": (GERMAN.encode(), html("klingon"), GERMAN, "utf-8"),
    "unknown name in the page": (meta("klingon", GERMAN, "utf-8"), "", GERMAN, "utf-8"),
    "unknown name over latin-1": (GERMAN.encode("latin-1"), html("klingon"), GERMAN, "windows-1252"),
    "empty name": (GERMAN.encode(), html(""), GERMAN, "utf-8"),
    "name with a zero byte": (GERMAN.encode(), html("utf\x00-8"), GERMAN, "utf-8"),
    "very long name": (GERMAN.encode(), html("x" * 10_000), GERMAN, "utf-8"),
    "a codec that is no encoding": (b"<p>", html("rot13"), "<p>", "utf-8"),
    "a codec that runs code elsewhere": (b"<p>", html("unicode_escape"), "<p>", "utf-8"),
    "utf-7 is never honoured": (b"+ADw-script+AD4-", html("utf-7"), "+ADw-script+AD4-", "utf-8"),
    "utf-7 in the page": (b"<meta charset=utf-7>+ADw-b+AD4-", "", "+ADw-b+AD4-", "utf-8"),
    "cesu-8 is no name": (b"abc", html("cesu-8"), "abc", "utf-8"),
    "utf-32 is no name": (GERMAN.encode(), html("utf-32"), GERMAN, "utf-8"),
    # wrong declarations
    "latin-1 said, utf-8 meant": (GERMAN.encode(), html("iso-8859-1"), GERMAN, "utf-8"),
    "windows-1251 said, utf-8 meant": (meta("windows-1251", RUSSIAN, "utf-8"), "", RUSSIAN, "utf-8"),
    "utf-8 said, latin-1 meant": (GERMAN.encode("latin-1"), html("utf-8"), GERMAN, "windows-1252"),
    "utf-8 said in the page, cp1251 meant": (
        meta("utf-8", RUSSIAN * 3, "cp1251"),
        "",
        RUSSIAN,
        "windows-1251",
    ),
    "utf-16 said, ascii meant": (b"<p>abc</p>", html("utf-16"), "<p>abc</p>", "utf-8"),
    "utf-16 said, latin-1 meant": (f"<p>{GERMAN}".encode("latin-1"), html("utf-16"), GERMAN, "windows-1252"),
    # nothing declared
    "latin-1": (f"<p>{GERMAN}</p>".encode("latin-1"), "text/html", GERMAN, "windows-1252"),
    "cp1251": (f"<p>{RUSSIAN * 3}</p>".encode("cp1251"), "", RUSSIAN, "windows-1251"),
    "shift_jis": (f"<p>{JAPANESE * 3}</p>".encode("cp932"), "", JAPANESE, "shift_jis"),
    "euc-jp": (f"<p>{JAPANESE * 3}</p>".encode("euc-jp"), "", JAPANESE, "euc-jp"),
    "iso-2022-jp": (f"<p>{JAPANESE}</p>".encode("iso2022_jp"), "", JAPANESE, "iso-2022-jp"),
    "gbk": (f"<p>{CHINESE * 3}</p>".encode("gbk"), "", CHINESE, "gbk"),
    "euc-kr": (f"<p>{KOREAN * 3}</p>".encode("euc-kr"), "", KOREAN, "euc-kr"),
    "latin-1 far down": (b"x" * 3 * SAMPLE + GERMAN.encode("latin-1"), "", GERMAN, "windows-1252"),
    # broken
    "utf-8 with one stray byte": (GERMAN.encode() + b"\xe9" + b" end", "", GERMAN, "utf-8"),
    "utf-8 with one stray byte, declared": (b"\xff" + GERMAN.encode(), html("utf-8"), GERMAN, "utf-8"),
    "utf-8 cut in a character": (GERMAN.encode() + "ü".encode()[:1], html("utf-8"), GERMAN, "utf-8"),
    "mixed utf-8 and latin-1": ((GERMAN * 4).encode() + "é è".encode("latin-1"), "", GERMAN, "utf-8"),
    "overlong slash": (b"a\xc0\xafb" + GERMAN.encode(), html("utf-8"), GERMAN, "utf-8"),
    "overlong zero": (b"\xc0\x80 and more", "", " and more", "windows-1252"),
    "lone surrogate": (b"\xed\xa0\x80" + GERMAN.encode(), html("utf-8"), GERMAN, "utf-8"),
    "lone surrogate in utf-16": (codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", "", "a", "utf-16le"),
    "lone surrogate in utf-32": (codecs.BOM_UTF32_LE + b"\x00\xd8\x00\x00a\x00\x00\x00", "", "a", "utf-32le"),
    "beyond unicode": (b"\xf4\x90\x80\x80 x", html("utf-8"), " x", None),
    "zero bytes": (b"a\x00b", "", "a\x00b", "utf-8"),
    "a zero byte in a tag": (b"<\x00script>", "", "<\x00script>", "utf-8"),
    "every byte": (bytes(range(256)), "", "abc", None),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20, "image/png", "PNG", None),
    "shift_jis cut in a character": (
        JAPANESE.encode("cp932")[:-1],
        html("shift_jis"),
        JAPANESE[:-1],
        "shift_jis",
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_read_and_the_choice_recorded(name):
    body, header, expected, encoding = DOCUMENTS[name]
    text, chosen = read_text(body, header)
    assert expected in text
    assert "\ufeff" not in text
    assert encoding in (None, chosen)
    assert not any("\ud800" <= char <= "\udfff" for char in text)


def test_there_are_documents_of_every_sort():
    assert len(DOCUMENTS) >= 60


def test_the_page_tells_which_encoding_was_chosen():
    headers = Headers([("Content-Type", "text/html; charset=koi8-r")])
    response = Response(url="https://e.com/", status=200, headers=headers, body=RUSSIAN.encode("koi8-r"))
    page = Page(response, Task(url="https://e.com/"))
    assert page.encoding == "koi8-r"
    assert page.html == RUSSIAN


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(body=st.binary(max_size=300), header=st.text(max_size=60))
def test_no_body_and_no_header_raises(body, header):
    text, name = read_text(body, f"text/html; charset={header}")
    assert isinstance(text, str)
    assert not any("\ud800" <= char <= "\udfff" for char in text)
    assert name == name.lower()


@settings(max_examples=2 * settings.default.max_examples, deadline=None)
@given(text=st.text(min_size=1, max_size=200))
def test_what_was_written_in_utf8_is_read_in_utf8(text):
    body = text.encode(errors="ignore")
    wanted = body.decode().removeprefix("\ufeff")
    if not body.startswith((b"<\x00", b"\x00<")) and b"\x1b$" not in body and b"charset" not in body:
        assert read_text(body, "text/html; charset=utf-8") == (wanted, "utf-8")
        assert read_text(body)[0] == wanted


def test_a_label_is_known_by_the_rules_of_the_web():
    assert known_name("latin1") == known_name(" ASCII ") == "windows-1252"
    assert known_name("utf8") == "utf-8"
    assert [known_name(name) for name in ("utf-7", "utf-32", "bogus", "", "replacement", "é")] == [None] * 6


def test_hostile_declarations_do_not_take_long():
    for body in (
        b"<meta " * 50_000,
        b"<!--" * 100_000,
        b"<?xml " + b"e" * 300_000,
        b"\xff" + b"<meta x " * 50_000,
    ):
        assert read_text(body)[0]
