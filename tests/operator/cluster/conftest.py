"""What these tests share with those of the API's client."""

from tests.operator.api.conftest import api, clock

__all__ = ["api", "clock"]
