import subprocess

import pytest

from tests.conftest import or_skip
from tests.servers.network import Network


@pytest.fixture
def network():
    with or_skip(lambda: Network(2)) as made:
        yield made


def reaches(machine, address):
    """Tell whether a machine hears from an address; bash is everywhere, and ping is not."""
    words = [*machine.inside, "bash", "-c", f"exec 3<>/dev/tcp/{address}/9"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=1, check=False).stderr
    except subprocess.TimeoutExpired:
        return False
    return "refused" in said


def test_a_machine_that_is_cut_off_hears_nothing_until_it_is_joined_again(network):
    first, second = network.machines
    assert reaches(first, network.address) and reaches(first, second.address)
    first.cut_off()
    assert not reaches(first, network.address) and reaches(second, network.address)
    first.join()
    assert reaches(first, network.address)


def test_nothing_of_a_network_is_left_behind(network):
    network.close()
    left = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert network.bridge not in left and not any(machine.cable in left for machine in network.machines)
