from tests.integration.engine.conftest import Bench, bench  # noqa: F401
