"""A room for policies' tables: files without a name that are mapped into the process.

The kernel keeps the pages that are used and gives the others back when memory is short, so tables
of many operators need disk, and little memory. After each use a policy's pages are let go: they
then count as the page cache's, not as the process's own. The files have no name, so nothing is left
of them when the process ends, however it ends; what outlives it is written by `LearnedStore`.

A file has holes where tables are zero. A page that is written there for the first time on a full
disk would end the process, so nothing is learned where the disk is nearly full.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir_operator.errors import TemporaryError
from weir_operator.runtime.files import storing

CHUNK = 1 << 28
"""Bytes of one file; holes take no room on the disk."""
RESERVE = 1 << 26
"""Bytes of the disk that stay free: ten times what an operator's tables take at most."""
_PAGE = mmap.PAGESIZE
_AROUND = 1 << 16
"""Bytes before and after a page that the kernel maps with it, where the file has them in memory
(`fault_around_bytes`)."""

_Area = tuple[mmap.mmap, int, int]
"""A mapping, where in it an area begins, and its bytes."""


class MappedTables:
    """A `TableStorage` in files of a folder."""

    def __init__(self, folder: Path) -> None:
        """Take over the folder; nothing is made there before the first tables come."""
        self._folder = folder
        self._chunk: mmap.mmap | None = None
        self._used = 0
        self._free: dict[int, list[_Area]] = {}

    def allocate(self, sizes: Sequence[int]) -> MappedAllocation:
        """Return a place for tables of so many bytes each, all zero.

        Raises:
            TemporaryError: The disk does not take another file.
        """
        self.be_ready()
        return MappedAllocation(self, [self._area(size) for size in sizes], sizes)

    def be_ready(self) -> None:
        """Return if the disk takes more pages.

        Raises:
            TemporaryError: It is nearly full.
        """
        with storing(self._folder):
            disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < RESERVE:
            raise TemporaryError(
                f"The disk of {self._folder} is nearly full, and tables of policies are kept there;"
                " free some space"
            )

    def give_back(self, areas: Sequence[_Area]) -> None:
        """Let areas be used again, and what they held be forgotten on the disk, too."""
        for area in areas:
            chunk, begin, length = area
            chunk.madvise(mmap.MADV_REMOVE, begin, length)
            self._free.setdefault(length, []).append(area)

    def _area(self, size: int) -> _Area:
        length = -(-size // _PAGE) * _PAGE
        if self._free.get(length):
            return self._free[length].pop()
        if self._chunk is None or self._used + length > len(self._chunk):
            self._chunk, self._used = self._map(max(CHUNK, length)), 0
        area = (self._chunk, self._used, length)
        self._used += length
        return area

    def _map(self, length: int) -> mmap.mmap:
        with (
            storing(self._folder),
            tempfile.TemporaryFile(dir=self._folder, prefix="tables-") as file,
        ):
            file.truncate(length)
            mapped = mmap.mmap(file.fileno(), length)
        # A table is read here and there: what stands beside a page is no sign of what comes next.
        mapped.madvise(mmap.MADV_RANDOM)
        return mapped


class MappedAllocation:
    """A `Allocation` in mapped files."""

    def __init__(self, room: MappedTables, areas: Sequence[_Area], sizes: Sequence[int]) -> None:
        self._room = room
        self._areas = areas
        self.arrays: Sequence[NDArray[np.uint8]] = [
            np.frombuffer(chunk, dtype=np.uint8, count=size, offset=begin)
            for (chunk, begin, _), size in zip(areas, sizes, strict=True)
        ]

    def be_ready(self) -> None:
        """Return if the tables can be written to.

        Raises:
            TemporaryError: The disk is nearly full.
        """
        self._room.be_ready()

    def rest(self) -> None:
        """Let the pages go; what was written to them stays in the files.

        Those of neighbours too that came with them: nobody else would let them go before the
        neighbour's next use, and the kernel brings them back where they are needed.
        """
        for chunk, begin, length in self._areas:
            first, end = max(0, begin - _AROUND), min(len(chunk), begin + length + _AROUND)
            chunk.madvise(mmap.MADV_DONTNEED, first, end - first)

    def leave(self) -> None:
        """Give the place back."""
        self._room.give_back(self._areas)
