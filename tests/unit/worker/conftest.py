"""The markers and the threads that tasks are processed with."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from shoal.worker.ipc.step_markers import StepMarkers, make_file


@pytest.fixture
def markers() -> Iterator[StepMarkers]:
    file = make_file()
    markers = StepMarkers(file)
    os.close(file)
    yield markers
    markers.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool
