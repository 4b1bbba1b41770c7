"""How the memory of Flink's processes is divided, held against Flink's own tool."""

import shlex
import subprocess

import pytest

from weir_operator.errors import PermanentError
from weir_operator.flink.commands import Installation
from weir_operator.flink.configuration import render_yaml
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.memory import (
    network_for,
    size_task_manager,
    split_job_manager,
    split_memory,
)

MIB = 2**20
CASES = {
    "a pool's default": {"process.size": "2g", "managed.size": "0m"},
    "managed memory": {"process.size": "1024m", "managed.size": "128m"},
    "Flink's own size": {"process.size": "1728m", "managed.size": "512m"},
    "a large process": {"process.size": "16g", "managed.size": "5g"},
    "memory of the task's own": {
        "process.size": "2g",
        "managed.size": "100m",
        "task.off-heap.size": "128 mb",
        "network.max": "1g",
        "jvm-overhead.max": "1g",
        "jvm-overhead.fraction": "0.2",
        "jvm-metaspace.size": "128m",
    },
}


def full(keys):
    return {f"taskmanager.memory.{key}": value for key, value in keys.items()}


def heap_of(memory, user=None):
    configuration = {**(user or {}), **memory.settings(user or {})}
    return int(split_memory(configuration).settings["taskmanager.memory.task.heap.size"][:-1])


def ask_flinks_tool(what, folder):
    """Return options of the JVM and of Flink, as Flink's scripts have them worked out."""
    flink = Installation(java=find_java(), flink_home=flink_home())
    tool = f"{flink.flink_home}/bin/bash-java-utils.jar:{flink.class_path()}"
    main = "org.apache.flink.runtime.util.bash.BashJavaUtils"
    output = subprocess.run(
        [str(flink.java), "-cp", tool, main, what, "--configDir", str(folder)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    mark = "BASH_JAVA_UTILS_EXEC_RESULT:"
    return [shlex.split(line.removeprefix(mark)) for line in output.splitlines() if mark in line]


@pytest.mark.flink
@pytest.mark.parametrize("keys", CASES.values(), ids=CASES.keys())
def test_the_split_is_that_of_flinks_own_tool(keys, tmp_path):
    configuration = full(keys)
    pinned = {**configuration, "taskmanager.numberOfTaskSlots": "1"}
    (tmp_path / "config.yaml").write_text(render_yaml(pinned))
    jvm, dynamic = ask_flinks_tool("GET_TM_RESOURCE_PARAMS", tmp_path)

    ours = split_memory(configuration)

    assert set(ours.jvm) == set(jvm)
    settings = dict(word.split("=", 1) for word in dynamic if word != "-D")
    for not_of_memory in ("taskmanager.numberOfTaskSlots", "external-resources"):
        del settings[not_of_memory]
    assert ours.settings == settings


@pytest.mark.flink
@pytest.mark.parametrize("process", [1024, 2048, 8192])
def test_a_job_manager_gets_the_heap_that_flinks_own_tool_gives_it(process, tmp_path):
    size = {"jobmanager.memory.process.size": f"{process}m"}
    (tmp_path / "config.yaml").write_text(render_yaml(size))
    jvm, _ = ask_flinks_tool("GET_JM_RESOURCE_PARAMS", tmp_path)

    assert set(split_job_manager({}, process=process).jvm) == set(jvm)


@pytest.mark.parametrize("process", [1728, 2048, 8192])
def test_an_operator_that_asks_for_nothing_has_flinks_share_of_managed_memory(process):
    memory = size_task_manager({}, process=process)

    overhead = max(192, process / 10)
    assert memory.managed == int(0.4 * (process - 160 - overhead))


@pytest.mark.parametrize("process", [650, 800, 1024])
def test_in_a_small_process_heap_and_managed_memory_both_have_their_part(process):
    memory = size_task_manager({}, process=process)

    heap = heap_of(memory) / MIB
    assert heap >= 64
    assert 0 < memory.managed <= heap + 1


def test_managed_memory_is_what_the_manifest_says_before_what_the_configuration_says():
    user = full({"managed.size": "200m"})

    assert size_task_manager(user, process=2048, managed=64).managed == 64
    assert size_task_manager(user, process=2048).managed == 200


@pytest.mark.parametrize(("fraction", "managed"), [("0.2", 336), ("0", 0)])
def test_the_users_fraction_of_managed_memory_is_taken_as_it_is(fraction, managed):
    user = full({"managed.fraction": fraction})

    assert size_task_manager(user, process=2048).managed == managed


@pytest.mark.parametrize(("managed", "least"), [(None, 639), (128, 704), (400, 976)])
def test_a_size_that_no_task_manager_can_run_in_is_refused_with_the_least_that_can(managed, least):
    with pytest.raises(PermanentError) as refused:
        size_task_manager({}, process=512, managed=managed, field="spec.nodePools[0].memory")

    message = str(refused.value)
    assert message.startswith("spec.nodePools[0].memory: ")
    assert f"{least}Mi" in message
    assert "512Mi" in message
    enough = size_task_manager({}, process=least, managed=managed)
    assert heap_of(enough) >= 64 * MIB


def test_memory_that_network_buffers_take_is_what_flink_announces_for_a_slot():
    # One stream in and one out, 30 subtasks at both ends: 2 * (2 * 30 + 8) buffers of 32 KiB.
    assert network_for({}, channels=30, exchanges=1) == 5
    assert network_for({}, channels=30 * 8, exchanges=8) == 34
    larger = {"taskmanager.memory.segment-size": "64kb"}
    assert network_for(larger, channels=30, exchanges=1) == 9


def test_network_memory_grows_with_the_replicas_once_flinks_share_is_too_little():
    few = size_task_manager({}, process=2048, channels=40, exchanges=4)
    many = size_task_manager({}, process=2048, channels=2000, exchanges=4)

    network = "taskmanager.memory.network.min"
    assert network not in few.settings({})
    assert many.settings({})[network] == "252m"
    assert network not in many.settings({"taskmanager.memory.network.max": "128m"})


def test_parts_that_leave_no_heap_are_refused_with_the_remedy():
    keys = full({"process.size": "1g", "managed.size": "400m"})

    with pytest.raises(PermanentError, match=r"1024 MiB.*145 MiB"):
        split_memory(keys)


@pytest.mark.parametrize("key", ["flink.size", "task.heap.size"])
def test_a_second_total_is_refused_by_name(key):
    keys = full({"process.size": "1g", key: "512m"})

    with pytest.raises(PermanentError, match=key):
        split_memory(keys)


def test_a_job_manager_that_would_have_no_heap_is_refused_with_the_least_that_has():
    field = "spec.flink.jobManager.memory"

    with pytest.raises(PermanentError, match=rf"{field}: .*704Mi.*512Mi"):
        split_job_manager({}, process=512)
    with pytest.raises(PermanentError, match=rf"heap.size\]: .*{field}"):
        split_job_manager({"jobmanager.memory.heap.size": "1g"}, process=1024)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("network.min", "much", "a size such as 64m"),
        ("managed.fraction", "1.5", "a share from 0 to below 1"),
        ("managed.fraction", "half", "a share such as 0.1"),
    ],
)
def test_a_key_that_cannot_be_read_is_named(key, value, expected):
    with pytest.raises(PermanentError, match=rf"memory\.{key}: .*{expected}.*'{value}'"):
        size_task_manager(full({key: value}), process=1024)
