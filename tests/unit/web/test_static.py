"""Static files: vendored ones unchanged, all of them small and part of the package."""

import re
import subprocess
import tomllib
from hashlib import sha256
from pathlib import Path

from shoal.core.model import WorkerState
from shoal.core.run_outcome import RunOutcome
from shoal.fleet.status.tokens import TokenState
from shoal.web.views.render import STATIC, TEMPLATES, environment

VENDOR = STATIC / "vendor"
ROW = re.compile(r"^\| (\S+) \| .+ \| ([0-9a-f]{64}) \|$", re.MULTILINE)


def test_vendored_files_are_those_of_the_manifest():
    listed = dict(ROW.findall((VENDOR / "MANIFEST.md").read_text()))
    found = {file.name: sha256(file.read_bytes()).hexdigest() for file in VENDOR.iterdir()}
    del found["MANIFEST.md"]
    assert found == listed


def test_own_scripts_write_no_markup_and_evaluate_nothing():
    script = (STATIC / "shoal.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "document.write", "new Function"):
        assert word not in script


def test_every_state_that_needs_attention_has_a_colour():
    css = (STATIC / "shoal.css").read_text()
    outcomes = set(RunOutcome) - {RunOutcome.COMPLETE, RunOutcome.CANCELLED}
    workers = {WorkerState.FROZEN, WorkerState.DIED, WorkerState.LATE, WorkerState.GONE}
    for state in (*outcomes, *workers, TokenState.RESTING, TokenState.RETIRED):
        assert re.search(rf"\.state\.{state}\b", css), state


def test_every_time_of_a_template_is_shown_in_the_time_zone_of_the_browser():
    for file in TEMPLATES.rglob("*.html"):
        assert not re.search(r"_at \}\}", file.read_text()), file.name


def test_nothing_is_loaded_from_other_servers():
    for file in [*STATIC.glob("*.css"), *STATIC.glob("*.js")]:
        assert not re.search(r"https?://(?!www\.w3\.org)", file.read_text()), file.name
    for name in environment().list_templates():
        source = environment().loader.get_source(environment(), name)[0]
        assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", source), name


def test_the_wheel_contains_the_templates_and_static_files():
    root = Path(__file__).parents[3]
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    # Hatchling includes every file of a package except those that git ignores.
    assert wheel == {"packages": ["src/shoal"]}
    files = [str(file) for folder in (STATIC, TEMPLATES) for file in folder.rglob("*") if file.is_file()]
    ignored = subprocess.run(
        ["git", "check-ignore", "--no-index", *files], cwd=root, capture_output=True, text=True, check=False
    )
    assert len(files) > 30 and (ignored.returncode, ignored.stdout) == (1, "")
