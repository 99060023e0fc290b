import pytest


@pytest.fixture(scope="package", autouse=True)
def forked_fork_servers():
    """Fork servers are forked from a process that has imported what they need: see fork_workers.py.

    Not for the session: unit tests of the fork server that run later in this process need the real one.
    """
    from shoal.worker.process import forkserver
    from tests.integration import fork_workers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forkserver, "_start", fork_workers.start)
        patch.setattr(forkserver.ForkServer, "close", fork_workers.close)
        yield
