"""The text of an element as displayed."""

import pytest
from turbohtml import parse

from shoal.scrape.node import text_of

TEXTS = [
    ("<p>plain</p>", "plain"),
    ("<p>  many \n\t words\xa0here </p>", "many words here"),
    ("<p>H<sub>2</sub>O is <b>W</b>ater</p>", "H2O is Water"),
    ("<p>one<br>two</p>", "one two"),
    ("<div><p>one</p><p>two</p></div>", "one two"),
    ("<ul><li>a</li><li>b</li></ul>", "a b"),
    ("<ol><li>a<li>b</ol>", "a b"),
    ("<table><caption>c</caption><tr><th>h<td>1<td>2<tr><td>3</table>", "c h 1 2 3"),
    ("<dl><dt>term<dd>sense</dl>", "term sense"),
    ("<select><option>one<option>two</select>", "one two"),
    ("<div>seen<script>var x</script><style>p{}</style><template>no</template></div>", "seen"),
    ("<div><!-- note -->seen</div>", "seen"),
    ("<div>a<div>b<div>c</div>d</div>e</div>", "a b c d e"),
    ("<span>x</span><span>y</span>", "xy"),
    ("<h1>one<span> two</span></h1>three", "one two three"),
    ("", ""),
]


@pytest.mark.parametrize(("html", "text"), TEXTS)
def test_words_of_two_blocks_do_not_run_together(html, text):
    assert text_of(parse(f"<body>{html}</body>").select_one("body")) == text


def test_the_text_of_a_script_is_the_script():
    document = parse('<script type="application/json">{"a": 1}</script><title> a  b </title>')
    assert text_of(document.select_one("script")) == '{"a": 1}'
    assert text_of(document.select_one("title")) == "a b"


def test_deep_nesting_is_read_without_recursion():
    document = parse("<div><span>" * 50_000 + "deep")
    assert text_of(document.select_one("body")) == "deep"
