import pytest

from tests.operator.api.memory_api import MemoryApi
from tests.operator.rescale.fakes import FakeClock


@pytest.fixture
def api():
    """An API server without any objects."""
    return MemoryApi()


@pytest.fixture
def clock():
    return FakeClock()
