import subprocess
import sys
from pathlib import Path

import pytest

from shoal.worker.child import ROOM_FOR_FILES

TELL = "print(open('/proc/self/status').read().split('FDSize:')[1].split()[0])"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the size of the table")
def test_a_new_worker_has_room_for_its_files_before_it_has_threads():
    prepare = "from shoal.worker.child import allow_many_files; allow_many_files();"
    assert _size_of_table(TELL) < ROOM_FOR_FILES
    assert _size_of_table(prepare + TELL) >= ROOM_FOR_FILES


def _size_of_table(program):
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
