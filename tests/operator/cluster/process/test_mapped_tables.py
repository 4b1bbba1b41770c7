"""Tables of policies in mapped files."""

import ctypes
import errno
import mmap
import os
import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from weir_operator.cluster.process import mapped_tables
from weir_operator.cluster.process.mapped_tables import (
    MappedAllocation,
    MappedTables,
    MemoryAllocation,
)
from weir_operator.errors import PermanentError, TemporaryError


def test_what_is_written_stands_there_after_a_rest(tmp_path):
    allocation = MappedTables(tmp_path).allocate([10_000, 300])
    allocation.arrays[0][:] = 7
    allocation.arrays[1][299] = 9

    allocation.release_pages()

    assert allocation.arrays[0].tolist() == [7] * 10_000
    assert allocation.arrays[1][299] == 9


def resident(folder):
    """Return the KiB of the folder's files that this process has mapped and in memory."""
    found, counted = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.partition(" ")[0]:
            counted = str(folder) in line
        elif counted and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


def test_no_page_stays_in_memory_after_a_rest_a_neighbours_neither(tmp_path):
    storage = MappedTables(tmp_path)
    one, other = storage.allocate([20_000]), storage.allocate([20_000])
    for allocation in (one, other):
        allocation.arrays[0][:] = 7
        allocation.release_pages()

    read = one.arrays[0][-1]
    held = resident(tmp_path)
    one.release_pages()

    assert read == 7
    assert held > 0
    assert resident(tmp_path) == 0


def cached(allocation):
    """Return how many pages of an allocation's first table are in memory, mapped or not."""
    array = allocation.arrays[0]
    pages = -(-array.nbytes // mmap.PAGESIZE)
    found = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.c_void_p(array.ctypes.data)
    assert libc.mincore(address, ctypes.c_size_t(array.nbytes), found) == 0
    return sum(each & 1 for each in found)


def evict(allocation):
    """Write the pages of an allocation to the disk and take them out of memory."""
    allocation.release_pages()
    for chunk, begin, length in allocation._areas:
        os.fsync(chunk.descriptor)
        os.posix_fadvise(chunk.descriptor, begin, length, os.POSIX_FADV_DONTNEED)


def test_pages_on_the_disk_alone_are_brought_back_together(tmp_path):
    allocation = MappedTables(tmp_path).allocate([4 * 2**20])
    allocation.arrays[0][:] = 7
    evict(allocation)
    before = cached(allocation)
    if before:
        pytest.skip("this file system keeps its files in memory")

    allocation.fetch_pages()

    deadline = time.monotonic() + 10
    while cached(allocation) < 1024 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert cached(allocation) == 1024
    assert resident(tmp_path) == 0
    assert (allocation.arrays[0] == 7).all()


def test_tables_of_two_policies_do_not_touch(tmp_path):
    storage = MappedTables(tmp_path)
    one, other = storage.allocate([5000]), storage.allocate([5000])

    one.arrays[0][:] = 255

    assert not other.arrays[0].any()


def test_a_place_that_was_left_is_given_out_again_with_zeros(tmp_path):
    storage = MappedTables(tmp_path)
    left = storage.allocate([5000])
    left.arrays[0][:] = 255
    address = left.arrays[0].ctypes.data

    left.free()
    taken = storage.allocate([5000])

    assert taken.arrays[0].ctypes.data == address
    assert not taken.arrays[0].any()


def test_tables_are_filled_without_a_page_of_them_in_the_process(tmp_path):
    storage = MappedTables(tmp_path)
    storage.allocate([5000])
    allocation = storage.allocate([2**20, 5000])
    contents = [np.full(2**19, 7, dtype=np.uint8), np.full(5000, 8, dtype=np.uint8)]

    allocation.fill(contents)

    assert resident(tmp_path) == 0
    for array, content in zip(allocation.arrays, contents, strict=True):
        assert (array[: content.size] == content).all()
        assert not array[content.size :].any()


def test_tables_that_the_disk_refuses_after_all_are_an_error_that_passes(tmp_path, monkeypatch):
    allocation = MappedTables(tmp_path).allocate([5000])

    def refuse(file, content, begin):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(TemporaryError, match="full; free some space"):
        allocation.fill([np.ones(5000, dtype=np.uint8)])


def test_tables_larger_than_a_file_get_one_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_tables, "CHUNK", 4096)

    allocation = MappedTables(tmp_path).allocate([10_000, 10_000])
    allocation.arrays[1][:] = 1

    assert not allocation.arrays[0].any()
    assert np.all(allocation.arrays[1] == 1)


def test_files_of_tables_have_no_name(tmp_path):
    storage = MappedTables(tmp_path)

    storage.allocate([5000])

    assert list(tmp_path.iterdir()) == []


def test_tables_are_in_memory_where_the_disk_is_nearly_full(tmp_path, monkeypatch):
    storage = MappedTables(tmp_path)
    disk = SimpleNamespace(f_bavail=mapped_tables.RESERVE // 4096 - 1, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda folder: disk)

    allocation = storage.allocate([5000, 300])
    allocation.arrays[0][:] = 7

    assert isinstance(allocation, MemoryAllocation)
    assert [array.size for array in allocation.arrays] == [5000, 300]
    assert not allocation.arrays[1].any()


def test_tables_are_in_memory_where_the_disk_has_no_blocks_for_them(tmp_path, monkeypatch):
    storage = MappedTables(tmp_path)

    def refuse(file, begin, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        assert isinstance(storage.allocate([5000]), MemoryAllocation)

    assert isinstance(storage.allocate([5000]), MappedAllocation)


def test_what_was_handed_out_has_its_blocks_on_the_disk(tmp_path):
    storage = MappedTables(tmp_path)
    before = os.statvfs(tmp_path).f_bavail

    storage.allocate([64 * 2**20]).release_pages()

    disk = os.statvfs(tmp_path)
    assert (before - disk.f_bavail) * disk.f_frsize > 48 * 2**20  # others use the disk, too


def test_a_folder_that_is_not_there_is_told_of(tmp_path):
    shutil.rmtree(tmp_path)

    with pytest.raises(PermanentError, match=re.escape(str(tmp_path))):
        MappedTables(tmp_path).allocate([5000])
