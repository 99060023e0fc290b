"""The private Redis keeps what it was told to keep, and leaves nothing behind."""

import pytest

from tests.conftest import or_skip
from tests.servers.process import ServerFailed
from tests.servers.redis import RedisServer


@pytest.mark.parametrize(("append", "kept"), [(True, "42"), (False, "")])
def test_a_killed_server_keeps_its_data_only_with_a_log(append, kept):
    with or_skip(lambda: RedisServer(append=append)) as server:
        server.cli("SET", "answer", 42)
        server.kill()
        server.start()
        assert server.cli("GET", "answer") == kept
    assert not server.folder.exists()


def test_it_listens_on_loopback_only_and_asks_for_its_password():
    with or_skip(lambda: RedisServer(password="secret")) as server:
        assert server.cli("CONFIG", "GET", "bind").split() == ["bind", "127.0.0.1"]
        server.password = None
        with pytest.raises(ServerFailed, match="NOAUTH"):
            server.cli("GET", "answer")


def test_the_nodes_of_a_cluster_share_the_slots(redis_cluster):
    assert "cluster_slots_assigned:16384" in redis_cluster.nodes[2].cli("CLUSTER", "INFO")
    assert redis_cluster.nodes[0].cli("CLUSTER", "NODES").count("master") == 3
