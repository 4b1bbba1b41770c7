import pytest

from weir_operator.kubernetes.api.testing import MemoryApi
from weir_operator.rescale.testing import FakeClock


@pytest.fixture
def api():
    """An API server without any objects."""
    return MemoryApi()


@pytest.fixture
def clock():
    return FakeClock()
