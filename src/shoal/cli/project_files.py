"""The files of a new project: those of its template, and those that all templates share."""

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from shoal.core.version import VERSION

# The word for the project in the templates, in the names of files too.
PLACEHOLDER = "myscraper"
# Under their real names these would apply to Shoal's own checkout.
DOTFILES = {"gitignore": ".gitignore", "dockerignore": ".dockerignore", "env": ".env"}
COMPILED = "__pycache__"


def write_project(template: str, folder: Path, name: str) -> None:
    """Create the folder of a project; it appears complete or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    with as_file(files("shoal").joinpath("templates", "projects")) as templates:
        for part in ("common", template):
            _copy(templates / part, unfinished, name)
    unfinished.rename(folder)


def _copy(source: Path, target: Path, name: str) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_dir() or COMPILED in file.parts:
            continue
        place = target / file.relative_to(source)
        place = place.with_name(DOTFILES.get(place.name, place.name.replace(PLACEHOLDER, name)))
        place.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8")
        place.write_text(text.replace(PLACEHOLDER, name).replace("SHOAL_VERSION", VERSION), encoding="utf-8")
        if place.name == ".env":
            place.chmod(0o600)
