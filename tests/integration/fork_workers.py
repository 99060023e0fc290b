"""A process that has imported what workers need, and forks a fork server for each run of a test.

A start of the fork server takes half a second of processor time, nearly all of it for imports, and tests run
hundreds of scrapers. `tests/integration/engine/processes/test_forkserver.py` starts the real one. The queues
and their drivers are here too: every worker would else import its own, for up to a fifth of a second.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from shoal.worker.process import forkserver

MAX_REQUEST = 1 << 17  # bytes
QUEUES = tuple(f"shoal.queue.{name}.queue" for name in ("sqlite", "postgres", "redis", "rabbitmq"))
ROOT = Path(__file__).parents[2]
_running: dict[str, tuple[subprocess.Popen, socket.socket]] = {}
_start_for_real, _close_for_real = forkserver._start, forkserver.ForkServer.close


def start():
    """Fork a fork server with the folder and the environment of this process; return its pid and socket."""
    process, requests = template(__name__)
    if os.environ.get("PYTHONPATH") != process.python_path:
        return _start_for_real()
    request = json.dumps({"folder": str(Path.cwd()), "environment": dict(os.environ)}).encode()
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    with theirs, os.fdopen(read, "rb", 0) as answer:
        socket.send_fds(requests, [request], [theirs.fileno(), write])
        os.close(write)
        return int(answer.read()), ours


def close(self):
    """End the fork server, which may be no child of this process, once its last worker has ended."""
    try:
        ended = os.pidfd_open(self.pid)
    except ProcessLookupError:
        self._socket.close()
        return
    try:
        self._socket.close()
        select.select([ended], [], [])
        os.waitpid(self.pid, 0)
    except ChildProcessError:
        pass
    finally:
        os.close(ended)


def template(module):
    """Return the process of a module that forks, and its socket; a new one if there is none that lives."""
    if module not in _running or _running[module][0].poll() is not None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", module, str(theirs.fileno())]
        # Not in the folder of a test, where it would not find this module.
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        process.python_path = os.environ.get("PYTHONPATH")
        theirs.close()
        _running[module] = process, ours
        atexit.register(_end, process, ours)
    return _running[module]


def _end(process, requests):
    requests.close()
    process.wait()


def serve(requests):
    """Fork a fork server for each request, until the tests have ended."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, 2)
        if not data:
            sys.exit()
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            requests.close()
            theirs, answer = descriptors
            os.close(answer)
            request = json.loads(data)
            os.chdir(request["folder"])
            os.environ.clear()
            os.environ.update(request["environment"])
            forkserver._serve(socket.socket(fileno=theirs))
        os.write(descriptors[1], f"{pid}".encode())
        for descriptor in descriptors:
            os.close(descriptor)


def reap(*_):
    """Wait for the processes that have ended, so that their processor time is counted as this one's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    for module in QUEUES:
        import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, reap)
    serve(socket.socket(fileno=int(sys.argv[1])))
