import socket
import subprocess

import pytest

from tests.conftest import or_skip
from tests.servers.network import Network


@pytest.fixture
def network():
    with or_skip(lambda: Network(2)) as made:
        yield made


def test_what_a_machine_sends_while_it_is_cut_off_does_not_arrive(network):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((network.address, 0))
        receiver.settimeout(0.3)
        port = receiver.getsockname()[1]
        for machine in network.machines:
            send(machine, network.address, port)  # learns where to send
            assert receiver.recv(9) == b"here\n"
            machine.cut_off()
            send(machine, network.address, port)
            with pytest.raises(TimeoutError):
                receiver.recv(9)


def send(machine, address, port):
    words = [*machine.inside, "bash", "-c", f"echo here > /dev/udp/{address}/{port}"]
    subprocess.run(words, check=True)


def test_nothing_of_a_network_is_left_behind(network):
    network.close()
    left = subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout
    assert network.bridge not in left and not any(machine.cable in left for machine in network.machines)
