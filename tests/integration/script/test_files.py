"""Scripts and notebooks, each in a process of its own, as users start them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.core.errors import InvalidInput
from shoal.scrape.load import load_scraper
from tests.cases import long
from tests.integration.script.conftest import PRODUCTS

SCRIPT = """\
import sys
from shoal import Page, Scraper
shop = Scraper("shop", rate=None, per_host=20, allow_private="127.0.0.1")
@shop.step
async def listing(page: Page):
    for link in [*page.links("nav.categories a"), page.attr("a[rel=next]", "href")]:
        yield page.follow(link)
    for link in page.links(".product h3 a"):
        yield page.follow(link, step=product)
@shop.step
def product(page: Page):
    yield {"sku": page.attr("table.facts", "data-sku")}
"""
GUARD = 'if __name__ == "__main__":\n    '
NOTEBOOK = Path(__file__).parents[3] / "docs" / "how-to" / "notebook.ipynb"


def write_script(folder, *lines, guard=GUARD):
    file = folder / "shop.py"
    file.write_text(SCRIPT + guard + ("\n    " if guard else "\n").join(lines) + "\n")
    return file


def run_file(file, *words, code=0):
    ended = subprocess.run(
        [sys.executable, str(file), *words],
        cwd=file.parent,
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == code, ended.stderr
    return ended


@pytest.mark.parametrize("options", [", workers=2", *long("")])
def test_a_script_holds_the_items_in_a_list(shop_site, tmp_path, options):
    lines = (f"result = shop.run_sync(sys.argv[1:]{options})", "print(len(result.items), result.state)")
    ended = run_file(write_script(tmp_path, *lines), *shop_site.seeds)
    assert ended.stdout == f"{PRODUCTS} finished\n"


def test_a_script_without_a_guard_gets_an_error_instead_of_more_and_more_workers(shop_site, tmp_path):
    file = write_script(tmp_path, "shop.run_sync(sys.argv[1:], workers=2)", guard="")
    ended = run_file(file, *shop_site.seeds, code=1)
    assert 'if __name__ == "__main__":' in ended.stderr.splitlines()[-1]


def test_a_file_that_starts_a_run_when_it_is_imported_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match='if __name__ == "__main__"'):
        load_scraper(str(write_script(tmp_path, "shop.run_sync(['https://example.com'])", guard="")))
    with pytest.raises(InvalidInput, match='if __name__ == "__main__"'):
        load_scraper(str(write_script(tmp_path, "shop.main()", guard="")))


def test_main_gives_the_file_the_whole_command(shop_site, tmp_path):
    file = write_script(tmp_path, "shop.main()")
    urls = [word for seed in shop_site.seeds for word in ("--url", seed)]
    run_file(file, "run", *urls, "--out", "items.jsonl", "--json")
    assert len((tmp_path / "items.jsonl").read_text().splitlines()) == PRODUCTS
    assert "Did you mean 'run'" in run_file(file, "rn", code=2).stderr


@pytest.mark.long
def test_the_file_has_the_other_commands_and_their_help(shop_site, tmp_path):
    file = write_script(tmp_path, "shop.main()")
    run_file(file, "run", "--url", shop_site.seeds[0])
    listed = run_file(file, "--help").stdout
    assert "python shop.py" in listed
    assert "Inspect" in listed
    assert "shop" in run_file(file, "runs").stdout
    assert "No URLs to start with" in run_file(file, "run", code=2).stderr


def interrupt(tmp_path, site, step, presses):
    """Start a script with this step, press Ctrl-C when a page is in the step, and return its output."""
    file = tmp_path / "slow.py"
    file.write_text(
        "import asyncio, sys, time\nfrom shoal import Scraper\n"
        'slow = Scraper("slow", rate=None, allow_private="127.0.0.1")\n@slow.step\n'
        f"async def home(page):\n    print('in step', flush=True)\n    {step}\n    yield {{'ok': 1}}\n"
        'if __name__ == "__main__":\n    result = slow.run_sync(sys.argv[1:], queue="slow.db")\n'
        "    print(result.state, len(result.items), result.counts['remaining'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(file), *site.seeds],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "in step\n"
    for _ in range(presses):
        os.kill(process.pid, signal.SIGINT)
        if presses > 1:
            _wait_for_line(process)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def _wait_for_line(process):
    """Wait until the first Ctrl-C has had its effect."""
    if process.poll() is None:
        process.stderr.readline()


@pytest.mark.long
def test_the_first_ctrl_c_finishes_what_is_running_and_returns_it(shop_site, tmp_path):
    code, output, errors = interrupt(tmp_path, shop_site, "await asyncio.sleep(1)", 1)
    assert (code, output) == (0, "finished 1 0\n")
    assert "Finishing 1 task; press Ctrl-C again" in errors


def test_after_a_ctrl_c_the_rest_stays_in_the_queue(shop_site, tmp_path):
    step = "await asyncio.sleep(1)\n    yield page.follow('/?later')"
    code, output, errors = interrupt(tmp_path, shop_site, step, 1)
    assert (code, output) == (0, "stopped 1 1\n")
    assert "Finishing 1 task" in errors


@pytest.mark.long
def test_the_second_ctrl_c_stops_at_once(shop_site, tmp_path):
    code, output, errors = interrupt(tmp_path, shop_site, "await asyncio.sleep(60)", 2)
    assert (code, output) == (-signal.SIGINT, "")
    assert "KeyboardInterrupt" in errors


def test_the_second_ctrl_c_stops_a_step_that_blocks_the_loop(shop_site, tmp_path):
    file = tmp_path / "slow.py"
    file.write_text(
        "import os, signal, sys, time\nfrom shoal import Scraper\n"
        'slow = Scraper("slow", rate=None, allow_private="127.0.0.1")\n@slow.step\n'
        "async def home(page):\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\n    yield {}\n"
        'if __name__ == "__main__":\n    slow.run_sync(sys.argv[1:])\n'
    )
    assert "KeyboardInterrupt" in run_file(file, *shop_site.seeds, code=-signal.SIGINT).stderr


@pytest.mark.parametrize("kind", ["async def", *long("def")])
def test_a_debugger_opens_in_a_step(shop_site, tmp_path, kind):
    file = tmp_path / "home.py"
    file.write_text(
        'import sys\nfrom shoal import Scraper\nhome = Scraper("home", allow_private="127.0.0.1")\n'
        f"@home.step\n{kind} page_of(page):\n    breakpoint()\n    yield {{'ok': 1}}\n"
        f"{GUARD}print(home.run_sync(sys.argv[1:]).items)\n"
    )

    def debug(typed):
        command = [sys.executable, str(file), *shop_site.seeds]
        return subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60, cwd=tmp_path)

    ended = debug("p 'here ' + str(page.status)\nc\n")
    assert "'here 200'" in ended.stdout
    assert "[{'ok': 1}]" in ended.stdout
    ended = debug("q\n")
    assert ended.stderr.splitlines()[-1].startswith("bdb.BdbQuit")


def run_notebook(cells, folder):
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(book, timeout=90, allow_errors=True, resources=resources).execute()
    return ["\n".join(map(_shown, cell.outputs)) for cell in book.cells]


def _shown(output):
    texts = [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
    trace = re.sub(r"\x1b\[[0-9;]*m", "", output.get("evalue", ""))
    return "\n".join([*texts, output.get("data", {}).get("text/html", ""), trace])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
@pytest.mark.long
def test_a_notebook_scrapes_the_shop(shop_site, tmp_path):
    ran = run_notebook(
        [
            SCRIPT,
            f"result = await shop.run({shop_site.seeds!r}); result",
            "print(len(result.items))",
            f"shop.run_sync({shop_site.seeds!r})",
            f"await shop.run({shop_site.seeds!r}, workers=2)",
            f"found = [item async for item in shop.stream({shop_site.seeds!r})]; len(found)",
            f"%%writefile filed.py\n{SCRIPT}",
            f"import filed; result = await filed.shop.run({shop_site.seeds!r}, workers=2)\nlen(result.items)",
        ],
        tmp_path,
    )
    assert f"{PRODUCTS} items" in ran[1]
    assert "<table>" in ran[1]
    assert ran[2].split() == [str(PRODUCTS)]
    assert "result = await shop.run(" in ran[3]
    assert "%%writefile shop.py" in ran[4]
    assert str(PRODUCTS) in ran[5]
    assert str(PRODUCTS) in ran[7]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_the_notebook_of_the_docs_runs(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(book, timeout=90, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert any("100" in str(cell.get("outputs")) for cell in book.cells)
