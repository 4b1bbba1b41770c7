"""The protocol of storage for a policy's tables outside the memory of the process.

A planner's tables take about 4 MB per operator, most of which means nothing at a time: room that
it may need, and results that it works out again. So a controller with ten thousand operators keeps
only the words that are in use, and elsewhere, such as in a mapped file. While a policy works, they
stand in a workspace, which all policies of a kind share. What a policy learns and decides does not
depend on it.

A policy that does not say which words it uses works in the storage itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weir_policies.kernels.view import Memory, OperatorView
from weir_policies.model.arrays import Counts

SMALL = 1 << 14
"""Bytes up to which memory stays in that of the process."""
PAGE = 4096
"""Bytes that are looked at, and copied, as one."""
STEP = 1 << 16
"""Bytes by which a place in the storage grows."""

Spans = tuple[tuple[int, int], ...]
"""Words of a row, `(begin, end)` each."""
Used = Callable[[Counts], Spans]
"""Says which words of a row are in use. How many spans there are, and where each begins, is the
same for all rows of a size."""


class Allocation(Protocol):
    """The place of one policy's tables."""

    @property
    def arrays(self) -> Sequence[NDArray[np.uint8]]:
        """The bytes of each table, at first all zero."""
        ...

    def fill(self, contents: Sequence[NDArray[np.uint8]]) -> None:
        """Write the beginning of each table, of which nothing was written yet."""
        ...

    def fetch_pages(self) -> None:
        """Begin to bring the pages into memory, all at once: the tables are about to be used."""
        ...

    def release_pages(self) -> None:
        """Release the pages: the tables are not used for a while."""
        ...

    def free(self) -> None:
        """Give the place back; the arrays must not be used any more."""
        ...


class TableStorage(Protocol):
    """Gives places to tables."""

    @property
    def workspaces(self) -> Workspaces:
        """Where policies work whose tables are here."""
        ...

    def allocate(self, sizes: Sequence[int]) -> Allocation:
        """Return a place for tables of so many bytes each."""
        ...


@dataclass(slots=True)
class _Workspace:
    memory: Memory
    spans: Spans = ()
    """What is not zero, besides the room to work in."""
    holds: object = None
    """Whose words these are."""


@dataclass(slots=True)
class Workspaces:
    """Memory for one policy at a time, one for each kind and size; not for several threads."""

    _workspaces: dict[Hashable, _Workspace] = field(default_factory=dict)
    _views: dict[Hashable, OperatorView] = field(default_factory=dict)

    def view(self, node_types: int, max_replicas: int) -> OperatorView:
        """Return the view of one operator that all policies fill before they use it."""
        shape = (node_types, max_replicas)
        if shape not in self._views:
            self._views[shape] = OperatorView.empty(node_types, max_replicas)
        return self._views[shape]

    def of(self, used: Used, words: int) -> _Workspace:
        """Return the workspace for rows of so many words."""
        if (used, words) not in self._workspaces:
            memory = np.zeros((1, words), dtype=np.int64)
            self._workspaces[used, words] = _Workspace(memory)
        return self._workspaces[used, words]


class StoredMemory:
    """The words in use of a policy's only row of memory."""

    def __init__(self, memory: Memory, used: Used, storage: TableStorage) -> None:
        """Store the memory."""
        self._used = used
        self._storage = storage
        self._workspace = storage.workspaces.of(used, memory.shape[1])
        self._spans: Spans = ()
        self._place = np.zeros(0, dtype=np.int64)
        self._allocation: Allocation | None = None
        self._write(memory[0])

    def load(self) -> Memory:
        """Return the memory, in the workspace: until another one is loaded there."""
        workspace = self._workspace
        if workspace.holds is self:
            return workspace.memory
        row, at = workspace.memory[0], 0
        before = workspace.spans or tuple((begin, begin) for begin, _ in self._spans)
        for (begin, end), (_, end_before) in zip(self._spans, before, strict=True):
            row[begin:end] = self._place[at : at + end - begin]
            row[end:end_before] = 0
            at += end - begin
        workspace.spans, workspace.holds = self._spans, self
        return workspace.memory

    def store(self) -> None:
        """Keep what was changed in the workspace, which holds this memory.

        Where the storage has no room, what was kept before remains.
        """
        workspace = self._workspace
        row = workspace.memory[0]
        workspace.spans, workspace.holds = self._used(row), None
        self._write(row)
        workspace.holds = self

    def fetch_pages(self) -> None:
        """Begin to bring the pages of the storage into memory."""
        if self._allocation is not None:
            self._allocation.fetch_pages()

    def release_pages(self) -> None:
        """Release the pages of the storage: they are not used for a while."""
        if self._allocation is not None:
            self._allocation.release_pages()

    def free(self) -> None:
        """Give the place back."""
        if self._workspace.holds is self:
            self._workspace.holds = None
        if self._allocation is not None:
            self._allocation.free()
            self._allocation = None

    def _write(self, row: Counts) -> None:
        spans = self._used(row)
        words = sum(end - begin for begin, end in spans)
        size = -(-words * row.itemsize // STEP) * STEP
        if self._allocation is None or size != self._place.nbytes:
            self._move([row[begin:end] for begin, end in spans], size)
        else:
            at = 0
            for begin, end in spans:
                _copy_changed(row[begin:end], self._place[at : at + end - begin])
                at += end - begin
        self._spans = spans

    def _move(self, parts: Sequence[Counts], size: int) -> None:
        """Write the parts to a new place of so many bytes, and give the old one back."""
        words = np.concatenate(parts)
        allocation = self._storage.allocate([size])
        try:
            allocation.fill([words.view(np.uint8)])
        except BaseException:
            allocation.free()
            raise
        if self._allocation is not None:
            self._allocation.free()
        self._allocation = allocation
        self._place = allocation.arrays[0].view(words.dtype)


def allocate_memory(memory: Memory, storage: TableStorage) -> tuple[Memory, Allocation]:
    """Return the memory in the storage if it is large; pages of zeros are not touched there."""
    if memory.nbytes <= SMALL:
        return memory, storage.allocate([])
    allocation = storage.allocate([memory.nbytes])
    [place] = allocation.arrays
    _copy_used_pages(np.ascontiguousarray(memory).reshape(-1).view(np.uint8), place)
    return place.view(memory.dtype).reshape(memory.shape), allocation


def _copy_used_pages(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    whole = source.size // PAGE * PAGE
    pages = source[:whole].view(np.uint64).reshape(-1, PAGE // 8)
    for page in np.flatnonzero(pages.any(axis=1)):
        target[page * PAGE : (page + 1) * PAGE] = source[page * PAGE : (page + 1) * PAGE]
    if source[whole:].any():
        target[whole:] = source[whole:]


def _copy_changed(source: Counts, target: Counts) -> None:
    """Copy the pages that differ: what is equal is not written to the disk again."""
    words = PAGE // source.itemsize
    whole = source.size // words * words
    pages, old = source[:whole].reshape(-1, words), target[:whole].reshape(-1, words)
    for page in np.flatnonzero((pages != old).any(axis=1)):
        old[page] = pages[page]
    target[whole:] = source[whole:]
