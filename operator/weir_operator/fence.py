"""The check before every change of the outside world: may this process still make it?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

Guard: TypeAlias = Callable[[], Awaitable[None]]
"""Returns where it may, and raises what is to end the work where it may not."""
