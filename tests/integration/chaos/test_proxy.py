"""What stands between workers and the servers of their store: cut, silent, or deaf to answers."""

import socket
import socketserver
import threading

import pytest

from tools.chaos.children import Servant
from tools.chaos.proxy import CUT, HEAR, LOSE
from tools.chaos.stores import Store


class Echo(socketserver.StreamRequestHandler):
    """Answers what it is told, and remembers it."""

    def handle(self):
        for line in self.rfile:
            self.server.told.append(line)
            self.server.hears.set()
            self.wfile.write(line)


@pytest.fixture
def server():
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as made:
        made.daemon_threads, made.told, made.hears = True, [], threading.Event()
        serving = threading.Thread(target=made.serve_forever)
        serving.start()
        yield made
        made.shutdown()
        serving.join()


@pytest.fixture
def store(server):
    proxy = Servant("proxy", server.server_address[1])
    yield Store("echo", "", proxies={"echo": proxy})
    proxy.close()


@pytest.fixture
def caller(store):
    with socket.create_connection(("127.0.0.1", store.proxies["echo"].port), timeout=30) as made:
        made.sendall(b"hello\n")
        assert made.recv(100) == b"hello\n"
        yield made


def is_lost(caller):
    """Say whether a connection has ended, one way or another."""
    try:
        return caller.recv(100) == b""
    except ConnectionError:
        return True


def test_a_cut_ends_all_connections(store, caller):
    store.order("echo", CUT)
    assert is_lost(caller)


def test_while_replies_are_lost_requests_reach_the_server_and_no_reply_the_client(server, store, caller):
    store.order("echo", LOSE)
    server.hears.clear()
    caller.sendall(b"obey\n")
    assert server.hears.wait(30) and server.told[-1] == b"obey\n"
    assert is_lost(caller)
    store.order("echo", HEAR)
    with socket.create_connection(("127.0.0.1", store.proxies["echo"].port), timeout=30) as another:
        another.sendall(b"again\n")
        assert another.recv(100) == b"again\n"


def test_in_silence_connections_stay_open_and_what_was_said_comes_later(server, store, caller):
    store.hush("echo")
    server.hears.clear()
    caller.sendall(b"late\n")
    assert not server.hears.wait(0.2)
    store.speak("echo")
    assert caller.recv(100) == b"late\n"
