"""Two servers of a test run are never given the same port."""

from tests.servers.process import WORKER, free_port


def test_no_port_is_given_twice():
    ports = [free_port() for _ in range(300)]
    assert len(set(ports)) == len(ports)


def test_two_processes_of_a_test_run_have_no_port_in_common(monkeypatch):
    monkeypatch.setenv(WORKER, "gw0")
    first = {free_port() for _ in range(50)}
    monkeypatch.setenv(WORKER, "gw1")
    second = {free_port() for _ in range(50)}
    monkeypatch.delenv(WORKER)  # the process that starts the workers
    assert not first & second and not (first | second) & {free_port() for _ in range(50)}
