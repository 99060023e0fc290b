"""The images of a deployment, built by buildah, and their commands run as a container runtime runs them.

No engine and no registry is needed. The base is made of Debian's packages, by the mirror that apt is
configured with; what pip installs is downloaded by this machine's pip, with its configuration.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from shoal.core.version import VERSION
from tests.servers.process import ServerFailed, find_program
from tests.unit.deploy.files import DEPLOY, ROOT

CACHE = ROOT / "build" / "image-test"  # kept: the base and the wheels serve the next time
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
EXTRAS = "postgres,metrics"
SHOAL, PROJECT = f"localhost/shoal:{VERSION}", "localhost/shop:1"
CHROOT = ("--isolation", "chroot", "--network", "host")
NOTHING: Mapping[str, str] = {}
# What a runtime does: processes of its own, a root that cannot be written to, /tmp in memory, a volume for
# the results, the image's user, and none of root's capabilities.
NAMESPACES = ("unshare", "--mount", "--pid", "--fork")
ENTER = """
set -e
mount --make-rprivate / && mount --bind "$ROOT" "$ROOT" && mount -o remount,bind,ro "$ROOT"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount -t proc proc "$ROOT/proc" && mount --rbind /dev "$ROOT/dev"
mount --bind "$RESULTS" "$ROOT/project/results"
exec chroot "$ROOT" setpriv --reuid "${USER_IDS%:*}" --regid "${USER_IDS#*:}" --clear-groups \
    --inh-caps=-all --bounding-set=-all --no-new-privs env -i "$@"
"""


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """Run a command, and return its stdout; raises ServerFailed."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        command = " ".join(map(str, words))
        raise ServerFailed(f"{command}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout.strip()


class Builder:
    """Runs buildah with a store of its own, which needs no daemon and no overlay file system."""

    def __init__(self, store: Path) -> None:
        self._debootstrap = find_program("debootstrap", "debootstrap")
        folders = ("--root", store / "images", "--runroot", store / "run", "--storage-driver", "vfs")
        self._buildah = (find_program("buildah", "buildah"), *folders)

    def __call__(self, *words: str | Path) -> str:
        return run(*self._buildah, *words)

    def run_in_debian(self, script: str, folder: Path) -> str:
        """Run a shell script in a Debian with Python, with `folder` as /folder; return its stdout."""
        container = self("from", "--pull-never", self._make_base())
        volumes = ("--volume", f"{download_wheels()}:/wheels:ro", "--volume", f"{folder}:/folder")
        try:
            return self("run", *volumes, *CHROOT, container, "sh", "-ec", script)
        finally:
            self("rm", container)

    def build_images(self, project: Path) -> None:
        """Build Shoal's image by its Dockerfile as it is, and that of a project upon it."""
        self._make_base()
        common = (
            "build",
            "--quiet",
            *CHROOT,
            "--pull-never",
            "--layers=false",
        )
        settings = CACHE / "pip.conf"
        settings.write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        offline = ("--volume", f"{download_wheels()}:/wheels:ro", "--volume", f"{settings}:/etc/pip.conf:ro")
        chosen = ("--target", "base", "--build-arg", f"EXTRAS={EXTRAS}")
        ignored = ("--ignorefile", f"{DOCKERFILE}.dockerignore")
        self(*common, "--file", DOCKERFILE, *chosen, *ignored, *offline, "--tag", SHOAL, ROOT)
        self(*common, "--build-arg", f"SHOAL={SHOAL}", "--tag", PROJECT, project)

    def _make_base(self) -> str:
        """Make an image of Debian with Python under the name of the official one, and return that."""
        (version,) = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
        release, base = version.rpartition("-")[2], CACHE / "base"
        if not (base / "usr/local/bin/pip").exists():
            shutil.rmtree(base, ignore_errors=True)
            words = ("--variant=minbase", f"--include={PACKAGES}", release, base, *mirror())
            # In a mount namespace of its own: nothing stays mounted in a folder that is deleted later.
            run("unshare", "--mount", self._debootstrap, *words)
            # Debian forbids pip to change its own packages; the official image has no such packages.
            for file in base.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
                file.unlink()
            for name in ("python", "pip"):
                (base / "usr/local/bin" / name).symlink_to(f"/usr/bin/{name}3")
        container = self("from", "scratch")
        self("add", "--quiet", container, base, "/")
        name = f"docker.io/library/python:{version}"
        self("commit", "--quiet", "--rm", container, name)
        return name


def mirror() -> list[str]:
    """Return the mirror of Debian that apt takes packages from, if it names one."""
    words = ("--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    lines = [line.split() for line in run("apt-get", "indextargets", *words).splitlines()]
    # Updates and security updates are in archives of their own, without the rest.
    return [line[0] for line in lines if len(line) == 3 and "-" not in line[1] and line[2] == "main"][:1]


def download_wheels() -> Path:
    """Download what the image installs: the build itself needs no package index."""
    wheels = CACHE / "wheels"
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    found = re.search(r"^requires = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    needed = json.loads(found[1]) if found else ["setuptools"]
    run(*pip, "--dest", wheels, "--constraint", "constraints/pins.txt", f".[{EXTRAS}]", *needed)
    return wheels


class Container:
    """The image of a project, mounted while the context is open."""

    def __init__(self, builder: Builder, results: Path) -> None:
        self._builder, self._results = builder, results
        about = json.loads(builder("inspect", "--type", "image", PROJECT))
        self._config: dict[str, Any] = about["OCIv1"]["config"]

    def __enter__(self) -> Self:
        self._name = self._builder("from", "--pull-never", PROJECT)
        self._root = self._builder("mount", self._name)
        return self

    def __exit__(self, *_: object) -> None:
        self._builder("rm", self._name)

    def start(self, *words: str, env: Mapping[str, str] = NOTHING) -> subprocess.Popen[str]:
        """Start a command by the image's entry point, with more variables than the image has."""
        config = self._config
        variables = [*config["Env"], *(f"{name}={value}" for name, value in env.items())]
        command = ("-C", config["WorkingDir"], *variables, *config["Entrypoint"], *words)
        places = {"ROOT": self._root, "RESULTS": str(self._results), "USER_IDS": config["User"]}
        return subprocess.Popen(
            [*NAMESPACES, "sh", "-c", ENTER, "sh", *command],
            env={**os.environ, **places},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words: str, env: Mapping[str, str] = NOTHING) -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it has written."""
        process = self.start(*words, env=env)
        stdout, stderr = process.communicate()
        return process.returncode, stdout + stderr


def send(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to the first process of a container, as a runtime does."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with suppress(FileNotFoundError):  # it has ended
        for first in children.read_text().split():
            os.kill(int(first), number)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a container that may still run, with all its processes."""
    # Not by unshare's own end: the kernel forgets a child that is to be killed when its user changes.
    send(process, signal.SIGKILL)
    process.communicate()
