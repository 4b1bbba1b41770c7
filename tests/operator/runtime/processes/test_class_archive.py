"""What is made once with a JVM's help, against the real Java and Flink."""

import logging
from pathlib import Path

import pytest

from weir_operator.errors import PermanentError
from weir_operator.flink.commands import Installation, MemoryArguments
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.runtime.processes.class_archive import ClassArchive, memory_arguments

MEMORY = MemoryArguments(jvm=(), dynamic=())


@pytest.fixture
def installation():
    return Installation(java=Path(find_java()), flink_home=Path(flink_home()))


@pytest.fixture
def broken():
    return Installation(java=Path("/no/java"), flink_home=Path("/no/flink"))


def memory(process, **more):
    return {
        "taskmanager.memory.process.size": process,
        "taskmanager.memory.managed.size": "0m",
        "taskmanager.numberOfTaskSlots": "1",
        "external-resources": "op-match",
        **more,
    }


@pytest.mark.flink
async def test_memory_is_worked_out_once_and_without_pins(installation, tmp_path):
    first = await memory_arguments(installation, cache=tmp_path, configuration=memory("1g"))
    files = list(tmp_path.iterdir())

    second = await memory_arguments(
        installation, cache=tmp_path, configuration=memory("1g", **{"external-resources": "op-x"})
    )

    assert any(option.startswith("-Xmx") for option in first.jvm)
    assert not any("external-resource" in word for word in first.dynamic)
    assert second == first
    assert list(tmp_path.iterdir()) == files


@pytest.mark.flink
async def test_memory_that_flink_cannot_divide_is_refused_with_its_reason(installation, tmp_path):
    with pytest.raises(PermanentError, match="64m"):
        await memory_arguments(installation, cache=tmp_path, configuration=memory("64m"))

    assert list(tmp_path.iterdir()) == []


async def test_without_an_archive_task_managers_start_all_the_same(broken, tmp_path, caplog):
    archive = ClassArchive(broken, cache=tmp_path / "cache", workshop=tmp_path / "archive")

    with caplog.at_level(logging.WARNING):
        options = await archive.options(MEMORY)

    assert options == ()
    assert "without an archive of classes" in caplog.text
    assert not (tmp_path / "archive").exists()
