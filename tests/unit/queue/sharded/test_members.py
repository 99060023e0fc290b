"""Each host belongs to one server, and a new server takes a bounded share from the others."""

from shoal.queue.sharded.members import Member, Members

HOSTS = [f"host-{number}.example" for number in range(3_000)]


def members(*names):
    return Members([Member(name, lambda: None) for name in names])


def owners(*names):
    chosen = members(*names)
    return {host: chosen.owner(host).name for host in HOSTS}


def test_the_servers_own_about_the_same_number_of_hosts():
    counts = [list(owners("a", "b", "c").values()).count(name) for name in "abc"]
    assert min(counts) > 0.9 * len(HOSTS) / 3, counts


def test_a_new_server_takes_its_share_and_no_host_moves_between_the_others():
    before, after = owners("a", "b", "c"), owners("a", "b", "c", "d")
    moved = [host for host in HOSTS if before[host] != after[host]]
    assert {after[host] for host in moved} == {"d"}
    assert 0.2 < len(moved) / len(HOSTS) < 0.3


def test_the_order_in_which_servers_are_named_does_not_matter():
    assert owners("a", "b", "c") == owners("c", "a", "b")
