import subprocess
import sys
from pathlib import Path

import pytest

from shoal.worker.process.main import FILE_TABLE_SIZE

PRINT_SIZE = "print(open('/proc/self/status').read().split('FDSize:')[1].split()[0])"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux shows the size of the table")
def test_a_new_worker_grows_its_file_table_before_it_has_threads():
    prepare = "from shoal.worker.process.main import allow_many_files; allow_many_files();"
    assert _size_of_table(PRINT_SIZE) < FILE_TABLE_SIZE
    assert _size_of_table(prepare + PRINT_SIZE) >= FILE_TABLE_SIZE


def _size_of_table(program):
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)
