"""Builds the image of a deployment without Docker, and runs a fleet from it: make image-test

buildah builds deploy/docker/Dockerfile upon a base of Debian's packages that carries the name of Python's
image, and a project upon it. Then its commands run as in a container: the image's user, a read-only root,
/tmp in memory. They migrate a PostgreSQL, coordinate, work on the shop of `shoal demo --serve`, and stop at
SIGTERM. It needs root, and the packages buildah and debootstrap.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from shoal.core.version import VERSION
from tests.servers.postgres import PostgresServer
from tests.servers.process import free_port

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "image-test"  # kept: the base and the wheels are good for the next time
DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
EXTRAS = "postgres,metrics"
USER = 10001
PATIENCE = 300.0  # seconds for anything to happen
Environment = Mapping[str, str]
NOTHING: Environment = {}
STOP_TIMEOUT = 60.0  # seconds, as Kubernetes gives a pod
# What a container runtime does: a root that cannot be written to, and /tmp in memory.
ENTER = """
set -e
mount --make-rprivate / && mount --bind "$ROOT" "$ROOT" && mount -o remount,bind,ro "$ROOT"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount --rbind /proc "$ROOT/proc" && mount --rbind /dev "$ROOT/dev"
mount --bind "$RESULTS" "$ROOT/project/results"
exec chroot --userspec="$USER_IDS" "$ROOT" /usr/bin/env -i -C /project "$@"
"""


class ImageFailed(Exception):
    """Something did not go as it must."""


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run a command, and return what it wrote to stdout; raises ImageFailed."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        command = " ".join(map(str, words))
        raise ImageFailed(
            f"{command} ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
    return done.stdout


def buildah(*words: str | Path) -> str:
    """Run buildah with a store of our own, which needs no daemon and no overlay file system."""
    store = ("--root", BUILD / "store", "--runroot", BUILD / "run", "--storage-driver", "vfs")
    return run("buildah", *store, *words).strip()


def make_base() -> None:
    """Make an image of Debian with Python, under the name that the Dockerfile builds upon."""
    (version,) = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    base = BUILD / "base"
    if not (base / "usr/local/bin/pip").exists():
        shutil.rmtree(base, ignore_errors=True)
        # In a mount namespace of its own, so that nothing stays mounted in a folder that is deleted later.
        words = ("--variant=minbase", f"--include={PACKAGES}", "bookworm", base)
        run("unshare", "--mount", "debootstrap", *words)
        for name in ("python", "pip"):
            (base / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}3")
        # Debian forbids pip to change its own packages; the official image has no such packages.
        for file in base.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
            file.unlink()
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, base, "/")
    buildah("commit", "--quiet", "--rm", container, f"docker.io/library/python:{version}")


def download_wheels() -> Path:
    """Download what the image installs, by this machine's pip: the build needs no package index."""
    wheels = BUILD / "wheels"
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    build = re.search(r"^requires = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    needed = json.loads(build[1]) if build else ["setuptools"]
    run(*pip, "--dest", wheels, "--constraint", "constraints/pins.txt", f".[{EXTRAS}]", *needed)
    return wheels


def build_images(project: Path) -> None:
    """Build Shoal's image, and that of a project upon it."""
    common = ("build", "--quiet", "--isolation", "chroot", "--pull-never", "--network", "host")
    wheels = download_wheels()
    settings = BUILD / "pip.conf"
    settings.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    offline = ("--volume", f"{wheels}:/wheels:ro", "--volume", f"{settings}:/etc/pip.conf:ro")
    ignored = ("--ignorefile", DOCKERFILE.with_name("Dockerfile.dockerignore"))
    own = ("--file", DOCKERFILE, "--target", "base", "--build-arg", f"EXTRAS={EXTRAS}", *ignored, *offline)
    buildah(*common, *own, "--tag", f"localhost/shoal:{VERSION}", ROOT)
    argument = ("--build-arg", f"SHOAL=localhost/shoal:{VERSION}")
    buildah(*common, "--file", project / "Dockerfile", *argument, "--tag", "localhost/shop:1", project)


class Container:
    """The image of the project, mounted; its commands run in it as a container runtime would run them."""

    def __init__(self, results: Path) -> None:
        self._name = buildah("from", "--pull-never", "localhost/shop:1")
        self._root = buildah("mount", self._name)
        about = json.loads(buildah("inspect", "--type", "image", "localhost/shop:1"))
        self.config: dict[str, Any] = about["OCIv1"]["config"]
        self._results = results

    def start(self, *words: str, env: Environment = NOTHING, entry: bool = True) -> subprocess.Popen[str]:
        """Start a command of the image with more environment variables than the image has."""
        variables = [*self.config["Env"], *(f"{name}={value}" for name, value in env.items())]
        command = [*(self.config["Entrypoint"] if entry else []), *words]
        outside = {
            **os.environ,
            "ROOT": self._root,
            "RESULTS": str(self._results),
            "USER_IDS": self.config["User"],
        }
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", ENTER, "sh", *variables, *command],
            env=outside,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def call(self, *words: str, env: Environment = NOTHING, entry: bool = True) -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it said."""
        process = self.start(*words, env=env, entry=entry)
        said, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def close(self) -> None:
        buildah("rm", self._name)


def check(is_so: bool, what: str, said: str = "") -> None:
    """Say that something is so; raises ImageFailed if it is not."""
    if not is_so:
        raise ImageFailed(f"not so: {what}\n{said}")
    print(f"  {what}", flush=True)


def check_rights(container: Container) -> None:
    code, said = container.call("id", "-u")
    check(code == 0 and said.strip() == str(USER), f"its user is {USER}", said)
    code, said = container.call("touch", "/project/x")
    check(code != 0 and "Read-only" in said, "its root is read-only", said)
    code, said = container.call("python", "-m", "pip", "--version")
    check(code != 0, "it has no pip", said)


def check_fleet(container: Container, queue: str, results: Path, wanted: int) -> None:
    code, said = container.call("shoal", "migrate", env={"SHOAL_QUEUE": queue})
    check(code == 0, "shoal migrate", said)
    port = free_port()
    served = {"SHOAL_QUEUE": queue, "SHOAL_METRICS": f"127.0.0.1:{port}", "SHOAL_LOG_DIR": "-"}
    worker = container.start("shoal", "start", "--role", "worker", "--workers", "2", env=served)
    try:
        wait_until_healthy(container, served)
        code, said = container.call("shoal", "start", "--role", "coordinator", env={"SHOAL_QUEUE": queue})
        check(code == 0, "shoal start --role coordinator ended well", said)
        items = [line for file in results.glob("*.jsonl") for line in file.read_text().splitlines()]
        check(len(items) == wanted, f"{len(items)} items, as many as without a container", said)
        began = time.monotonic()
        worker.terminate()
        said, _ = worker.communicate(timeout=STOP_TIMEOUT)
        seconds = time.monotonic() - began
        check(worker.returncode == 0, f"SIGTERM: the worker ended after {seconds:.1f} s", said)
    finally:
        worker.kill()
        worker.wait()


def wait_until_healthy(container: Container, served: Environment) -> None:
    # As in the Dockerfile; images of OCI have no health checks.
    words = ("python", "/usr/local/lib/shoal/healthy.py")
    give_up = time.monotonic() + PATIENCE
    while (code := container.call(*words, env=served, entry=False)[0]) and time.monotonic() < give_up:
        time.sleep(0.5)
    check(code == 0, "its health check passes while it works")


def make_project(folder: Path, site: str) -> Path:
    """Make a project from a template, for the shop at an address."""
    run(sys.executable, "-m", "shoal", "new", "shop", "--template", "shop", cwd=folder)
    project = folder / "shop"
    toml = project / "shoal.toml"
    toml.write_text(toml.read_text().replace("http://127.0.0.1:8800/", site))
    scraper = project / "shop.py"
    scraper.write_text(scraper.read_text().replace('rate="10/s"', "rate=None"))
    return project


def main() -> int:
    if os.geteuid() != 0 or not all(map(shutil.which, ("buildah", "debootstrap", "unshare"))):
        print(
            "error: This needs root, and the packages buildah and debootstrap. "
            "Run: tools/servers.sh buildah debootstrap",
            file=sys.stderr,
        )
        return 2
    began = time.monotonic()
    with TemporaryDirectory(prefix="shoal-image-") as place:
        folder, results, port = Path(place), Path(place) / "results", free_port()
        results.mkdir()
        os.chown(results, USER, USER)
        shop = subprocess.Popen(
            [sys.executable, "-m", "shoal", "demo", "--serve", "--port", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            project = make_project(folder, f"http://127.0.0.1:{port}/")
            run(sys.executable, "-m", "shoal", "run", "shop", "--out", folder / "wanted.jsonl", cwd=project)
            wanted = len((folder / "wanted.jsonl").read_text().splitlines())
            (project / "shoal.db").unlink(missing_ok=True)
            make_base()
            build_images(project)
            print(f"image-test: built in {time.monotonic() - began:.0f} s", flush=True)
            container = Container(results)
            try:
                check_rights(container)
                with PostgresServer() as server:
                    check_fleet(container, server.url(), results, wanted)
            finally:
                container.close()
        except ImageFailed as error:
            print(f"image-test: FAILED. {error}", file=sys.stderr)
            return 1
        finally:
            shop.kill()
            shop.wait()
    print(f"image-test: as it must be, in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
