"""The archive of the classes that a TaskManager loads."""

import logging
from pathlib import Path

from weir_operator.flink.commands import Installation
from weir_operator.runtime.processes.class_archive import ClassArchive


async def test_without_an_archive_task_managers_start_all_the_same(tmp_path, caplog):
    broken = Installation(java=Path("/no/java"), flink_home=Path("/no/flink"))
    archive = ClassArchive(broken, cache=tmp_path / "cache", workshop=tmp_path / "archive")

    with caplog.at_level(logging.WARNING):
        options = await archive.options()

    assert options == ()
    assert "without an archive of classes" in caplog.text
    assert not (tmp_path / "archive").exists()
