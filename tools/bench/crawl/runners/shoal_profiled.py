"""The same scrapers; a worker that loads them writes how much CPU time of its main thread each file took."""

import json
import os
import signal
import sys
import time
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType

INTERVAL = 0.002  # seconds of CPU time between two samples
WRITTEN_EVERY = 25  # samples, for a worker ends without a last word
OWN_FILE = "step"

spec = spec_from_file_location("shoal_manual", Path(__file__).with_name("shoal_manual.py"))
manual = module_from_spec(spec)
spec.loader.exec_module(manual)
known, linked = manual.known, manual.linked

seconds: Counter[str] = Counter()
samples = 0
last = 0.0


def file_of(frame: FrameType | None) -> str:
    """Return the innermost file of Shoal, or of the scraper, that is running; none is the event loop."""
    while frame:
        name = frame.f_code.co_filename
        if name == manual.__file__:
            return OWN_FILE
        if "/shoal/" in name:
            return name.rpartition("/shoal/")[2]
        frame = frame.f_back
    return ""


def sample(_number: int, frame: FrameType | None) -> None:
    """Charge the time since the last sample to the file that is running."""
    global samples, last
    now = time.thread_time()
    seconds[file_of(frame)] += now - last
    samples += 1
    if samples % WRITTEN_EVERY == 0:
        Path(os.environ["BENCH_PROFILE"]).write_text(json.dumps(seconds))
    last = time.thread_time()


if sys.argv[0] == "shoal.worker.process.main":
    last = time.thread_time()
    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
