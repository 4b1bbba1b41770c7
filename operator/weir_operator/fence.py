"""What is asked right before anything outside is changed: whether this process still may."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

Guard: TypeAlias = Callable[[], Awaitable[None]]
"""Returns where it may, and raises what is to end the work where it may not."""
