"""The protocol of storage for a policy's tables outside the memory of the process.

A planner's tables take about 4 MB per operator, of which a decision reads a few pages. So a
controller with ten thousand operators stores them elsewhere, such as in a mapped file. What a
policy learns and decides does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weir_policies.kernels.view import Memory

SMALL = 1 << 14
"""Bytes up to which memory stays in that of the process."""
PAGE = 4096
"""Bytes that are looked at, and copied, as one."""


class Allocation(Protocol):
    """The place of one policy's tables."""

    @property
    def arrays(self) -> Sequence[NDArray[np.uint8]]:
        """The bytes of each table, at first all zero."""
        ...

    def release_pages(self) -> None:
        """Release the pages: the tables are not used for a while."""
        ...

    def free(self) -> None:
        """Give the place back; the arrays must not be used any more."""
        ...


class TableStorage(Protocol):
    """Gives places to tables."""

    def allocate(self, sizes: Sequence[int]) -> Allocation:
        """Return a place for tables of so many bytes each."""
        ...


def allocate_memory(memory: Memory, storage: TableStorage) -> tuple[Memory, Allocation]:
    """Return the memory in the storage if it is large; pages of zeros are not touched there."""
    if memory.nbytes <= SMALL:
        return memory, storage.allocate([])
    allocation = storage.allocate([memory.nbytes])
    [place] = allocation.arrays
    _copy_used_pages(np.ascontiguousarray(memory).reshape(-1).view(np.uint8), place)
    return place.view(memory.dtype).reshape(memory.shape), allocation


def _copy_used_pages(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    """Copy what is not zero, page by page."""
    whole = source.size // PAGE * PAGE
    pages = source[:whole].view(np.uint64).reshape(-1, PAGE // 8)
    for page in np.flatnonzero(pages.any(axis=1)):
        target[page * PAGE : (page + 1) * PAGE] = source[page * PAGE : (page + 1) * PAGE]
    if source[whole:].any():
        target[whole:] = source[whole:]
