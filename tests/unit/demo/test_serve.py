"""The site in its own process."""

import json
import signal
import subprocess
import sys
from urllib.request import urlopen

from shoal.demo.serve import SiteProcess

COMMAND = [sys.executable, "-m", "shoal.demo.site", "--products", "50", "--shops", "2"]


def test_a_site_in_another_process_serves_and_returns_its_log_at_the_end():
    with SiteProcess(shops=2, products=50) as site:
        with urlopen(site.seeds[1], timeout=10) as reply:
            assert b"Welcome to" in reply.read()
        assert len(site.products) + len(site.rejects) == 50
    assert site.log["statuses"] == {"200": 1}
    assert site.log["hosts"][site.hosts[1]]["requests"] == 1


def test_the_process_ends_on_sigterm():
    with subprocess.Popen([*COMMAND, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert len(json.loads(process.stdout.readline())["seeds"]) == 2
        process.send_signal(signal.SIGTERM)
        assert json.loads(process.stdout.read())["requests"] == 0
        assert process.wait(10) == 0


def test_the_process_ends_when_stdin_closes_and_prints_readable_text():
    done = subprocess.run(COMMAND, input="", capture_output=True, text=True, timeout=30, check=True)
    assert "http://127.0.0.1:" in done.stdout
    assert "Stopped after 0 requests." in done.stdout


def test_a_taken_port_is_an_error_that_says_what_to_type():
    with SiteProcess(shops=1, products=1) as site:
        port = site.hosts[0].rpartition(":")[2]
        done = subprocess.run(
            [*COMMAND, "--port", port], input="", capture_output=True, text=True, timeout=30
        )
    assert done.returncode == 1
    assert "--port 0" in done.stderr
    assert "Traceback" not in done.stderr
