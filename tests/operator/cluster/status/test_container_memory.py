"""What the controller's container uses and may use, as its cgroup says it."""

from __future__ import annotations

import math

import pytest

from weir_operator.cluster.status.telemetry import measure_memory

MIB = 2**20


def version_2(root, *, limit):
    (root / "memory.current").write_text(f"{500 * MIB}\n")
    (root / "memory.max").write_text(f"{limit}\n")
    (root / "memory.stat").write_text(
        f"anon {300 * MIB}\nfile {120 * MIB}\nactive_file {20 * MIB}\ninactive_file {80 * MIB}\n"
    )


def version_1(root, *, limit):
    folder = root / "memory"
    folder.mkdir()
    (folder / "memory.usage_in_bytes").write_text(f"{500 * MIB}\n")
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.stat").write_text(
        f"active_file 0\ntotal_active_file {20 * MIB}\ntotal_inactive_file {80 * MIB}\n"
    )


@pytest.mark.parametrize("write", [version_2, version_1])
def test_pages_of_files_are_not_counted_as_in_use(tmp_path, write):
    write(tmp_path, limit=768 * MIB)

    assert measure_memory(tmp_path) == (400 * MIB, 768 * MIB)


@pytest.mark.parametrize(
    ("write", "unbounded"), [(version_2, "max"), (version_1, 9223372036854771712)]
)
def test_where_there_is_no_limit_none_is_shown(tmp_path, write, unbounded):
    write(tmp_path, limit=unbounded)

    used, limit = measure_memory(tmp_path)

    assert used == 400 * MIB
    assert math.isnan(limit)


@pytest.mark.parametrize("damage", ["", "one two three", "nothing of use\n"])
def test_what_cannot_be_read_is_not_known(tmp_path, damage):
    version_2(tmp_path, limit=768 * MIB)
    (tmp_path / "memory.stat").write_text(damage)

    assert all(map(math.isnan, measure_memory(tmp_path)))


def test_beside_no_cgroup_nothing_is_known(tmp_path):
    assert all(map(math.isnan, measure_memory(tmp_path)))
