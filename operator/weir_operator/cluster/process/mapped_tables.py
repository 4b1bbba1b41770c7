"""Storage of policies' tables: unnamed files that are mapped into the process.

The kernel keeps the pages in use and reclaims the others when memory is short, so tables of many
operators need disk but little memory. After each use, a policy's pages are released: they then
belong to the page cache, not to the process. The files have no name, so nothing is left of them
when the process ends; `LearnedStore` writes what must survive it.

On a full disk, the first use of a page without a block ends the process by SIGBUS; on a file system
in memory, even a read does. So the blocks of a table are reserved before it is used, and if the
disk has no space for them, the table is kept in memory.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from weir_operator.errors import TemporaryError
from weir_operator.runtime.files import storing
from weir_policies.kernels.table_storage import Allocation, Workspaces

log = structlog.get_logger()

CHUNK = 1 << 28
"""Bytes of one file; what is not handed out takes no space on the disk."""
RESERVE = 1 << 26
"""Bytes of the disk that tables leave free, for records and what was learned."""
_PAGE = mmap.PAGESIZE
_AROUND = 1 << 16
"""Bytes before and after a page that the kernel maps with it, where the file has them in memory
(`fault_around_bytes`)."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Chunk:
    """A file, open for as long as something refers to it, and its mapping."""

    descriptor: int
    mapped: mmap.mmap
    content: NDArray[np.uint8]
    """What is mapped."""


_Area = tuple[_Chunk, int, int]
"""A chunk, where in it an area begins, and its bytes."""


class MappedTables:
    """A `TableStorage` in files of a folder."""

    def __init__(self, folder: Path) -> None:
        """Use the folder; nothing is created there before the first tables."""
        self.folder = folder
        self._chunk: _Chunk | None = None
        self._used = 0
        self._free: dict[int, list[_Area]] = {}
        self._is_full = False
        self.workspaces = Workspaces()

    def allocate(self, sizes: Sequence[int]) -> Allocation:
        """Return a place for tables of so many bytes each, all zero; in memory on a full disk.

        Raises:
            PermanentError: The folder cannot be written.
        """
        areas: list[_Area] = []
        try:
            self._check_space(sum(sizes))
            for size in sizes:
                areas.append(self._area(size))
        except TemporaryError as error:
            self.free(areas)
            if not self._is_full:
                log.warning("tables are kept in memory", reason=str(error))
            self._is_full = True
            return MemoryAllocation(sizes)
        self._is_full = False
        return MappedAllocation(self, areas, sizes)

    def _check_space(self, size: int) -> None:
        """Return if the disk has space for so many bytes more."""
        with storing(self.folder):
            disk = os.statvfs(self.folder)
        if disk.f_bavail * disk.f_frsize < RESERVE + size:
            raise TemporaryError(
                f"The disk of {self.folder} is nearly full, and policies need it for "
                "their tables; free some space"
            )

    def free(self, areas: Sequence[_Area]) -> None:
        """Free areas, and discard what they held on the disk, too."""
        for area in areas:
            chunk, begin, length = area
            chunk.mapped.madvise(mmap.MADV_REMOVE, begin, length)
            self._free.setdefault(length, []).append(area)

    def _area(self, size: int) -> _Area:
        """Return an area of so many bytes, with reserved blocks on the disk."""
        length = -(-size // _PAGE) * _PAGE
        if self._free.get(length):
            area = self._free[length].pop()
        else:
            if self._chunk is None or self._used + length > len(self._chunk.mapped):
                self._chunk, self._used = self._map(max(CHUNK, length)), 0
            area = (self._chunk, self._used, length)
            self._used += length
        chunk, begin, _ = area
        try:
            with storing(self.folder):
                os.posix_fallocate(chunk.descriptor, begin, length)
        except TemporaryError:
            self.free([area])
            raise
        return area

    def _map(self, length: int) -> _Chunk:
        with (
            storing(self.folder),
            tempfile.TemporaryFile(dir=self.folder, prefix="tables-") as file,
        ):
            file.truncate(length)
            mapped = mmap.mmap(file.fileno(), length)
            descriptor = os.dup(file.fileno())
        # A table is read here and there: what stands beside a page is no sign of what comes next.
        mapped.madvise(mmap.MADV_RANDOM)
        chunk = _Chunk(descriptor, mapped, np.frombuffer(mapped, dtype=np.uint8))
        weakref.finalize(chunk, os.close, descriptor).atexit = False
        return chunk


class MemoryAllocation:
    """An `Allocation` in the memory of the process, where the disk has no space."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.arrays: Sequence[NDArray[np.uint8]] = [
            np.zeros(size, dtype=np.uint8) for size in sizes
        ]

    def fill(self, contents: Sequence[NDArray[np.uint8]]) -> None:
        """Write the beginning of each table."""
        for array, content in zip(self.arrays, contents, strict=True):
            array[: content.size] = content

    def fetch_pages(self) -> None:
        """Do nothing: the pages are in memory."""

    def release_pages(self) -> None:
        """Do nothing: the pages have no other place."""

    def free(self) -> None:
        """Do nothing: the memory goes with the arrays."""


class MappedAllocation:
    """A `Allocation` in mapped files."""

    def __init__(self, storage: MappedTables, areas: Sequence[_Area], sizes: Sequence[int]) -> None:
        self._storage = storage
        self._areas = areas
        self.arrays: Sequence[NDArray[np.uint8]] = [
            chunk.content[begin : begin + size]
            for (chunk, begin, _), size in zip(areas, sizes, strict=True)
        ]

    def fill(self, contents: Sequence[NDArray[np.uint8]]) -> None:
        """Write the beginning of each table to its file.

        Through the mapping, the kernel would bring in each page twice, to read and to write it.

        Raises:
            TemporaryError: The disk has no space after all.
            PermanentError: It cannot be written.
        """
        for (chunk, begin, _), content in zip(self._areas, contents, strict=True):
            written = 0
            with storing(self._storage.folder):
                while written < content.size:
                    written += os.pwrite(chunk.descriptor, content[written:].data, begin + written)

    def fetch_pages(self) -> None:
        """Begin to read what is not in memory, in large pieces: a use would read page by page."""
        for chunk, begin, length in self._areas:
            chunk.mapped.madvise(mmap.MADV_WILLNEED, begin, length)

    def release_pages(self) -> None:
        """Release the pages; what was written to them stays in the files.

        Those of neighbours too that came with them: nobody else would let them go before the
        neighbour's next use, and the kernel brings them back where they are needed.
        """
        for chunk, begin, length in self._areas:
            first, end = max(0, begin - _AROUND), min(len(chunk.mapped), begin + length + _AROUND)
            chunk.mapped.madvise(mmap.MADV_DONTNEED, first, end - first)

    def free(self) -> None:
        """Give the place back."""
        self._storage.free(self._areas)
