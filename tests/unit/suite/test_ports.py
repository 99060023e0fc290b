"""Two servers of a test run are never given the same port."""

from tests.servers.process import PROCESS, free_port


def test_no_port_is_given_twice():
    ports = [free_port() for _ in range(300)]
    assert len(set(ports)) == len(ports)


def test_two_processes_of_a_test_run_have_no_port_in_common(monkeypatch):
    monkeypatch.setenv(PROCESS, "1")
    first = {free_port() for _ in range(50)}
    monkeypatch.setenv(PROCESS, "2")
    assert not first & {free_port() for _ in range(50)}
