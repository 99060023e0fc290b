import pytest

from tests.conftest import or_skip
from tests.integration.deploy.tool import Promtool


@pytest.fixture(scope="session")
def promtool():
    return or_skip(Promtool)
