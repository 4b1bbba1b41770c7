"""Of a library's pages, only those that are still the file's may be released."""

from __future__ import annotations

import sys

import llvmlite.binding as llvm
import pytest

from weir_operator.kubernetes.app.library_pages import release_library_pages, unchanged_mappings

SMAPS = """\
7f0000000000-7f0000002000 r--p 00000000 08:01 77 /usr/lib/libllvmlite.so
Rss:                   8 kB
Anonymous:             0 kB
Swap:                  0 kB
7f0000002000-7f0000006000 r-xp 00002000 08:01 77 /usr/lib/libllvmlite.so
Rss:                  16 kB
Anonymous:             0 kB
Swap:                  0 kB
7f0000006000-7f0000007000 r--p 00006000 08:01 77 /usr/lib/libllvmlite.so
Rss:                   4 kB
Anonymous:             4 kB
Swap:                  0 kB
7f0000007000-7f0000008000 rw-p 00007000 08:01 77 /usr/lib/libllvmlite.so
Rss:                   4 kB
Anonymous:             0 kB
Swap:                  0 kB
7f0000009000-7f000000a000 r-xp 00000000 08:01 78 /usr/lib/libc.so.6
Rss:                   4 kB
Anonymous:             0 kB
Swap:                  0 kB
7f000000b000-7f000000c000 rw-p 00000000 00:00 0
Rss:                   4 kB
Anonymous:             0 kB
Swap:                  0 kB
7f000000d000-7f000000e000 r--p 00008000 08:01 77 /usr/lib/libllvmlite.so
Rss:                   0 kB
Anonymous:             0 kB
Swap:                  4 kB
"""


def test_what_was_changed_or_may_be_is_not_released():
    found = [*unchanged_mappings(SMAPS, "libllvmlite.so")]

    assert found == [(0x7F0000000000, 0x2000), (0x7F0000002000, 0x4000)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is mapped")
def test_a_library_whose_pages_were_released_still_works():
    module = llvm.parse_assembly("define i32 @one() { ret i32 1 }")

    released = release_library_pages()

    assert released > 0
    assert "define i32 @one()" in str(module)
