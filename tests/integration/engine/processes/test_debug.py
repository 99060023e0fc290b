"""Finding a bug in a step: tracebacks, and the debugger in the terminal."""

import asyncio
import os
import pty
import re
import select
import sys
import time
from pathlib import Path

import pytest

from shoal.cli.exits import Exit
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed
from tests.integration.processes import start_process

SCRAPER = """
from shoal import Page, Scraper
from prices import read_price

shop = Scraper("shop", rate=None, robots=False, retries=2)

@shop.step
async def listing(page: Page):
    if "break" in page.url:
        breakpoint()
        yield {"title": page.text("title")}
        yield page.follow("/price", step=item)
    else:
        yield page.follow("/price", step=item)

@shop.step
def item(page: Page):
    yield {"price": read_price("")}
"""
PRICES = """
import json

def read_price(text):
    return json.loads(text)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SCRAPER)
    (tmp_path / "prices.py").write_text(PRICES)
    return tmp_path


@pytest.fixture
def site(origin):
    origin.answer = lambda path: Answer(body=b"<title>A shop</title>")
    return origin


def talk(words, folder, *exchanges):
    """Type a command in a terminal: wait for each text, then type the line that belongs to it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "shoal", *words], os.environ | {"NO_COLOR": "1"})
    seen, at, deadline = "", 0, time.monotonic() + 60
    waiting = list(exchanges)
    try:
        while True:
            assert time.monotonic() < deadline, seen
            if waiting and (found := seen.find(waiting[0][0], at)) >= 0:
                text, line = waiting.pop(0)
                at = found + len(text)
                os.write(terminal, line.encode())
                continue
            if select.select([terminal], [], [], 1.0)[0]:
                try:
                    piece = os.read(terminal, 4096)
                except OSError:  # the end, on Linux
                    break
                seen += piece.decode()
        assert not waiting, seen
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen
    finally:
        os.close(terminal)


async def test_a_step_is_debugged_in_the_terminal_and_its_error_opens_the_debugger_there(folder, site):
    code, seen = await asyncio.to_thread(
        talk,
        ["run", "--debug", "shop.py", "--url", f"{site.url}/break"],
        folder,
        ("(Pdb) ", "p page.text('title')\n"),
        ("'A shop'", ""),
        ("(Pdb) ", "c\n"),
        ("JSONDecodeError", ""),
        ("(Pdb) ", "p text == ''\n"),
        ("True", ""),
        ("(Pdb) ", "q\n"),
    )
    assert "-> return json.loads(text)" in seen
    assert "Stopped at the first error of a step, after 1 page, 1 item." in seen
    assert code == Exit.PARTIAL
    assert not list(folder.glob("*.db"))


async def test_ctrl_c_ends_a_step_that_is_running(folder, site):
    (folder / "busy.py").write_text(
        "from shoal import Scraper\nbusy = Scraper('busy', robots=False)\n"
        "@busy.step\nasync def main(page):\n    print('busy now', flush=True)\n    while True: pass\n"
    )
    words = ["run", "--debug", "busy.py", "--url", f"{site.url}/"]
    code, seen = await asyncio.to_thread(talk, words, folder, ("busy now", "\x03"))
    assert "Stopped with 1 task left" in seen
    assert code == Exit.PARTIAL


async def test_without_a_terminal_the_first_error_is_printed_and_ends_the_run(folder, site):
    done = await typed(
        *("run", "--debug", "shop.py", "--url", f"{site.url}/", "--url", f"{site.url}/2"), folder=folder
    )
    assert done.code == Exit.PARTIAL
    assert '  File "prices.py", line 5, in read_price\n    return json.loads(text)\n' in done.err
    assert "… 3 frames in json (decoder.py:" in done.err
    assert done.err.count("JSONDecodeError") == 1
    assert "Stopped at the first error of a step" in done.err


async def test_each_task_is_printed_once_though_it_waits_for_its_host_and_the_end_says_what_was_left_out(
    folder, site
):
    (folder / "list.py").write_text(
        "from typing import TypedDict\nfrom shoal import Scraper\n"
        "books = Scraper('books', rate='20/s', max_pages=3, scope='host')\n"
        "class Book(TypedDict):\n    title: str\n"
        "@books.step(item=Book)\n"
        "async def main(page):\n"
        "    yield {'title': None}\n"
        "    yield page.follow('https://other.example/')\n"
        "    for number in range(5):\n"
        "        yield page.follow(f'/{number}')\n"
    )
    done = await typed("run", "--debug", "list.py", "--url", f"{site.url}/", folder=folder)
    begun = [line for line in done.err.splitlines() if line.startswith("main: ")]
    assert begun == [f"main: {site.url}{path}" for path in ("/", "/0", "/1")]
    assert "Stopped at max_pages=3 with 3 tasks left: 3 pages, 0 items, 3 rejected." in done.err
    assert "First reject: title: " in done.err
    assert "Links not followed: 3 out of scope, for example https://other.example/." in done.err
    assert done.code == Exit.LIMIT_REACHED


async def test_debugging_refuses_options_that_it_would_ignore_and_obeys_a_typed_queue(folder, site):
    words = ("run", "--debug", "shop.py", "--url", f"{site.url}/", "--run", "mine")
    done = await typed(*words, "--log-dir", "logs", folder=folder)
    assert done.code == Exit.USAGE
    assert "leave out --log-dir" in done.err
    await typed(*words, "--queue", "sqlite:///kept.db", folder=folder, SHOAL_LOG_DIR=str(folder / "logs"))
    async with open_queue(f"sqlite:///{folder}/kept.db") as queue:
        stats = await queue.stats("mine")
    assert (stats.completed, stats.pending, stats.leased, stats.dead) == (1, 1, 0, 0)


async def test_a_failure_is_found_and_fixed_from_its_dead_letter(folder, site):
    urls = ["--url", f"{site.url}/break", "--url", f"{site.url}/"]
    done = await typed("run", "shop.py", *urls, "--run", "mine", folder=folder)
    assert f"First of 3 JSONDecodeError: {site.url}/price\n" in done.err
    assert '    File "prices.py", line 5, in read_price\n' in done.err
    listed = (await typed("dead", "list", "mine", "--json", folder=folder)).rows
    refused, failed = sorted(listed, key=lambda letter: letter["attempts"])
    assert refused["attempts"] == 1
    assert f"Run: shoal run --debug shop.py --url {site.url}/break" in refused["error"]
    assert failed["error"].endswith("(prices.py:5 in read_price)")
    shown = (await typed("dead", "show", "mine", failed["id"], "--json", folder=folder)).row
    assert '  File "prices.py", line 5, in read_price\n' in shown["traceback"]
    assert shown["page"]["status"] == 200
    written = await typed("dead", "show", "--page", "mine", failed["id"], folder=folder)
    assert Path(written.out.strip()).read_bytes() == b"<title>A shop</title>"
    Path(written.out.strip()).unlink()
    again = await say_in(
        "debug()\nrun()\ndebug()\nl\nq\n", "dead", "shell", "mine", failed["id"], folder=folder
    )
    last = again.rpartition(">>> ")[0].rpartition("'https://…')")[2]
    assert '  File "prices.py", line 5, in read_price\n    return json.loads(text)\n' in last
    assert "… 3 frames in json (decoder.py:" in last and "To look at its variables" in last
    assert "Traceback" not in last and "session.py" not in last
    # debug() opens at the user's line, not in the library that raised.
    assert "There is no error to look at" in last and "prices.py(5)read_price()\n-> return json" in last
    (folder / "prices.py").write_text("def read_price(text):\n    return 7\n")
    tried = await say_in(
        "run()\npage.text('title')\n", "dead", "shell", "mine", failed["id"], "shop.py", folder=folder
    )
    assert '{"price":7}' in tried
    assert "'A shop'" in tried
    (folder / "shop.py").rename(folder / "moved.py")
    unknown = await typed("dead", "shell", "mine", failed["id"], folder=folder)
    assert unknown.code == Exit.USAGE
    assert f"shoal dead shell mine {failed['id']} FILE.py" in unknown.err


async def test_the_shell_fetches_and_runs_steps(folder, site):
    lines = f"fetch('{site.url}/2', headers={{'X-Test': 'yes'}})\nrun('listing')\nview()\n"
    out = await say_in(lines, "shell", f"{site.url}/", "--scraper", "shop.py", folder=folder)
    assert f"<Page 200 {site.url}/2>" in out
    assert f"item: {site.url}/price" in out
    assert "Step 'listing': 0 items, 1 new task." in out
    copies = re.findall(r"\S*shoal-page-\S*", out)
    assert copies
    assert Path(copies[0]).read_text().endswith("<title>A shop</title>")
    Path(copies[0]).unlink()
    found = await typed("shell", f"{site.url}/", "--xpath", "//title/text()", folder=folder)
    assert found.out == "A shop\n"


async def say_in(lines, *words, folder):
    """Type lines into a shell, and return all that it printed."""
    shell = await start_process(
        *(sys.executable, "-m", "shoal", *words),
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1", "DISPLAY": "", "WAYLAND_DISPLAY": ""},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(shell.communicate(lines.encode()), 60)
    return out.decode()


async def test_a_step_that_blocks_the_event_loop_is_named_with_its_stack(folder, site):
    (folder / "slow.py").write_text(
        "import time\nfrom shoal import Scraper\nslow = Scraper('slow', robots=False, rate=None)\n"
        "@slow.step\nasync def main(page):\n    time.sleep(2.5)\n"
    )
    done = await typed("run", "slow.py", "--url", f"{site.url}/1", "--url", f"{site.url}/2", folder=folder)
    assert done.code == Exit.OK
    assert done.err.count("Step 'main' has blocked the event loop for") == 1
    assert '  File "slow.py", line 6, in main\n    time.sleep(2.5)\n' in done.err
    assert "<module>" not in done.err
