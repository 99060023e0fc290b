"""Small packages with entry points, installed into a folder for a test."""

from pathlib import Path


def install(
    folder: Path, name: str, entry_points: dict[str, dict[str, str]], version: str = "1.0", **modules: str
):
    """Write a package as `pip install --target` would: its modules, and metadata with its entry points."""
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code)
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, names in entry_points.items()
        for line in (f"[{group}]", *(f"{one} = {target}" for one, target in names.items()), "")
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return folder
