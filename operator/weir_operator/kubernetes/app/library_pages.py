"""Releases the pages of LLVM's library, which loads a policy's compiled functions and then rests.

To load them touches 69 MiB of the library, and nothing reads these again until another policy is
loaded. They are pages of a file that nobody has changed, so the kernel can take them back whenever
memory is short, and brings back what is read after all. Until then they would count as the
controller's memory; released, they belong to the page cache.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from collections.abc import Iterator
from pathlib import Path

LIBRARY = "libllvmlite.so"
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) .*?(/\S.*)?")
_SMAPS = Path("/proc/self/smaps")


def release_library_pages(library: str = LIBRARY) -> int:
    """Release the unchanged pages of a loaded library; return the bytes of its mappings.

    Nothing is released where the system is not Linux, or the library is not loaded.
    """
    if not _SMAPS.exists():
        return 0
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    released = 0
    for begin, length in unchanged_mappings(_SMAPS.read_text(), library):
        if libc.madvise(begin, length, mmap.MADV_DONTNEED) == 0:
            released += length
    return released


def unchanged_mappings(smaps: str, library: str) -> Iterator[tuple[int, int]]:
    """Yield where the process has read-only parts of a file, as address and bytes.

    The loader has changed some of them, such as addresses of functions, and made them read-only
    afterwards: these pages are no longer those of the file, and would be lost. Where they have been
    swapped out, they do not count as anonymous.
    """
    begin = end = 0
    is_candidate = is_unchanged = False
    for line in smaps.splitlines():
        mapping = _MAPPING.fullmatch(line)
        if mapping is not None:
            begin, end = int(mapping[1], 16), int(mapping[2], 16)
            path = mapping[4] or ""
            is_candidate = path.rpartition("/")[2] == library and "w" not in mapping[3]
            is_unchanged = False
        elif line.startswith("Anonymous:"):
            is_unchanged = line.split() == ["Anonymous:", "0", "kB"]
        elif is_candidate and is_unchanged and line.split() == ["Swap:", "0", "kB"]:
            yield begin, end - begin
