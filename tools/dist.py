"""Build the sdist and the wheel, check what is in them, and use the wheel as one who installs it does.

Each Python of this machine from 3.11 on gets a new environment with the wheel alone, in which `shoal demo`
runs; one of them then gets every extra, each in an environment of its own.
"""

import argparse
import subprocess
import sys
import tarfile
import time
import tomllib
from email.parser import Parser
from pathlib import Path
from shutil import rmtree, which
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
# A module that needs the packages of the extra.
EXTRAS = {
    "postgres": "shoal.queue.postgres.queue",
    "redis": "shoal.queue.redis.queue",
    "rabbitmq": "shoal.queue.rabbitmq.queue",
    "parquet": "shoal.export.files.parquet",
    "yaml": "yaml",
    "warc": "shoal.export.archive.warc",
    "s3": "obstore",
    "browser": "shoal.fetch.browser.browser",
    "metrics": "shoal.fleet.telemetry.metrics",
    "otel": "opentelemetry.exporter.otlp.proto.http",
    "web": "shoal.web.app",
    "aiohttp": "shoal.fetch.http.aiohttp",
    "scrapy": "shoal.scrapy.inside",
    "all": "shoal.web.app",
}
FOR_DEVELOPERS = {"dev", "docs", "bench"}


def build(into: Path = DIST) -> tuple[Path, Path]:
    """Build both packages into an empty folder, and return the wheel and the sdist."""
    rmtree(into, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(into)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,), (sdist,) = into.glob("*.whl"), into.glob("*.tar.gz")
    return wheel, sdist


def faults(wheel: Path, sdist: Path) -> list[str]:
    """Return what is wrong with the contents and the metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = []
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(about).decode())
    info = about.removesuffix("METADATA")
    source = {str(file.relative_to(ROOT / "src")) for file in _sources()}
    packed = {name for name in names if not name.startswith(info)}
    found += [f"the wheel lacks {name}" for name in sorted(source - packed)]
    found += [f"the wheel has {name}, which is not of the package" for name in sorted(packed - source)]
    found += [
        f"the wheel lacks {name}"
        for name in ("shoal/py.typed", info + "licenses/LICENSE")
        if name not in names
    ]
    if metadata["License-Expression"] != project["license"]:
        found.append("the metadata does not name the licence")
    if metadata["Requires-Python"] != project["requires-python"]:
        found.append("the metadata does not name the versions of Python")
    with tarfile.open(sdist) as archive:
        folder = sdist.name.removesuffix(".tar.gz")
        held = {name.removeprefix(f"{folder}/") for name in archive.getnames()}
    found += [f"the sdist lacks {name}" for name in ("LICENSE", "README.md", "PKG-INFO") if name not in held]
    found += [f"the sdist lacks src/{name}" for name in sorted(source) if f"src/{name}" not in held]
    untried = set(project["optional-dependencies"]) - FOR_DEVELOPERS ^ set(EXTRAS)
    found += [f"EXTRAS and pyproject.toml differ in {name}" for name in sorted(untried)]
    return found


def _sources() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name]


def try_wheel(python: str, wheel: Path, extra: str, folder: Path) -> None:
    """Install the wheel into a new environment, and use it; raises CalledProcessError."""
    environment = folder / f"{Path(python).name}-{extra or 'alone'}"
    inside = environment / "bin" / "python"
    _run(python, "-m", "venv", str(environment))
    began = time.monotonic()
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    _run(str(inside), "-m", "pip", "install", "-q", "--disable-pip-version-check", wanted)
    installed = time.monotonic()
    if extra:
        _run(str(inside), "-c", f"import {EXTRAS[extra]}")
        done = f"imports {EXTRAS[extra]}"
    else:
        _run(str(environment / "bin" / "shoal"), "demo", cwd=environment)
        done = f"shoal demo took {time.monotonic() - installed:.0f} s"
    print(
        f"{Path(python).name:11} {extra or '-':9} installed in {installed - began:.0f} s; {done}", flush=True
    )
    rmtree(environment)


def _works(python: str) -> bool:
    """Return whether this Python is here; pyenv has a command for each version that it knows."""
    return bool(which(python)) and not subprocess.run([python, "--version"], capture_output=True).returncode


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    if done.returncode:
        sys.stderr.write(done.stdout[-2_000:] + done.stderr[-2_000:])
        done.check_returncode()


def main() -> None:
    """Build, check, and try; ends with an error at the first fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-only", action="store_true", help="do not install anything")
    options = parser.parse_args()
    wheel, sdist = build()
    if found := faults(wheel, sdist):
        sys.exit("\n".join(found))
    for one in (wheel, sdist):
        print(f"{one.relative_to(ROOT)}  {one.stat().st_size / 1e6:.1f} MB")
    if options.build_only:
        return
    works = {name: _works(name) for name in (f"python{version}" for version in VERSIONS)}
    pythons = [name for name, is_here in works.items() if is_here]
    print(f"Not on this machine: {', '.join(name for name in works if name not in pythons) or '-'}")
    with TemporaryDirectory() as folder:
        for python in pythons:
            try_wheel(python, wheel, "", Path(folder))
        for extra in EXTRAS:
            try_wheel(pythons[-1], wheel, extra, Path(folder))


if __name__ == "__main__":
    main()
