import os
import socket
import subprocess
import sys

from shoal.fleet.whereabouts import is_dead, new_worker_id


def test_this_process_lives_and_every_id_is_new():
    ids = {new_worker_id() for _ in range(10)}
    assert len(ids) == 10
    assert not any(map(is_dead, ids))


def test_a_process_of_this_machine_that_has_ended_is_dead():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert is_dead(f"{socket.gethostname()}-{process.pid}-abcd1234")


def test_of_other_machines_and_odd_ids_nothing_is_known():
    assert not is_dead("elsewhere.example-1-abcd1234")
    assert not is_dead("worker-1")
    assert not is_dead("nonsense")
    assert not is_dead(f"{socket.gethostname()}-x{os.getpid()}-abcd1234")
