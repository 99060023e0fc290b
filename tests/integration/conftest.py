import pytest


@pytest.fixture(scope="session", autouse=True)
def forked_fork_servers():
    """Fork servers are forked from a process that has imported what they need: see fork_workers.py."""
    from shoal.worker.process import forkserver
    from tests.integration import fork_workers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forkserver, "_start", fork_workers.start)
        patch.setattr(forkserver.ForkServer, "close", fork_workers.close)
        yield
