"""What the README shows is what happens."""

import asyncio
import re
import sys
from pathlib import Path

from tests.integration.engine.origin import Answer
from tests.integration.processes import start_process

README = (Path(__file__).parents[4] / "README.md").read_text()


def quotes(path):
    """Serve ten pages of ten quotes, as the site of the example does."""
    if path == "/robots.txt":
        return Answer("")
    number = int(path.strip("/").removeprefix("page") or 1)
    listed = "".join(
        f"<div class=quote><span class=text>Quote {number}.{entry}</span><small class=author>Me</small></div>"
        for entry in range(10)
    )
    after = f"<li class=next><a href='/page{number + 1}'>Next</a></li>" if number < 10 else ""
    return Answer(listed + after)


async def test_the_example_runs_and_prints_what_it_says(origin, tmp_path):
    origin.answer = quotes
    code = re.search(r"```python\n(.*?)```", README, re.S)[1]
    command, output = re.search(r"```sh\n(shoal run [^`]*)\n```\n\n```\n(.*?)```", README, re.S).groups()
    (tmp_path / "quotes.py").write_text(code)
    words = command.replace("https://quotes.toscrape.com", origin.url).split()[1:]
    process = await start_process(
        sys.executable, "-m", "shoal", *words, cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert _without_times(said.decode()) == _without_times(output)
    assert len((tmp_path / "quotes.jsonl").read_text().splitlines()) == 100


def _without_times(text):
    return re.sub(r"\d+ s\.", "N s.", re.sub(r"\d{8}_\d{6}_\w{4}", "RUN", text)).split("\n")
