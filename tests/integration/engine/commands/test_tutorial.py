"""The tutorial in the docs: every command is typed in order, and prints what is shown there."""

import re
from pathlib import Path

import pytest

from tests.integration.engine.commands.test_walkthrough import BLOCK, Terminal, check
from tests.servers.process import free_port

TUTORIAL = (Path(__file__).parents[4] / "docs" / "tutorial.md").read_text()


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_every_line_of_the_tutorial_can_be_typed_in_order(tmp_path):
    terminal, folder, printed = Terminal(tmp_path), tmp_path / "prices", ""
    port = str(free_port())
    scraper = folder / "prices.py"
    try:
        for language, text in BLOCK.findall(TUTORIAL.replace("8800", port)):
            if language == "python" and text.startswith('"""'):
                assert scraper.read_text() == text, "the file that `shoal new` writes"
            elif language == "python":
                changed = scraper.read_text().replace(
                    "    category: str\n", "    category: str\n    sku: str\n"
                )
                scraper.write_text(re.sub(r'(?m)^(?=        "category")', text, changed))
            elif language == "sh":
                printed = ""
                for command in text.splitlines():
                    printed += await terminal.type(command.replace("--serve", f"--serve --port {port}"))
                    if command.startswith("shoal new"):
                        settings = folder / "shoal.toml"
                        settings.write_text(settings.read_text().replace("8800", port))
                assert "Traceback" not in printed and ("pytest" not in text or "3 passed" in printed), printed
            elif not language:
                check(printed, text)
    finally:
        await terminal.close()
    assert (folder / "products.csv").read_text().startswith("name,price,category,sku,in_stock")
