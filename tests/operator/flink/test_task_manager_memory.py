"""How a TaskManager's memory is split, held against Flink's own tool."""

import subprocess

import pytest

from weir_operator.errors import PermanentError
from weir_operator.flink.commands import Installation, memory_command, parse_memory_arguments
from weir_operator.flink.configuration import memory_recommendations, render_yaml
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.memory import split_memory

CASES = {
    "Weir's recommendations": {**memory_recommendations(), "process.size": "512m"},
    "managed memory": {
        **memory_recommendations(),
        "process.size": "1024m",
        "managed.size": "256m",
    },
    "Flink's own defaults": {"process.size": "1728m", "managed.size": "0m"},
    "memory of the task's own": {
        **memory_recommendations(),
        "process.size": "2g",
        "task.off-heap.size": "128 mb",
        "network.max": "1g",
        "jvm-overhead.max": "1g",
        "jvm-overhead.fraction": "0.2",
    },
}


def full(keys):
    prefix = "taskmanager.memory."
    return {
        "taskmanager.memory.managed.size": "0m",
        **{key if key.startswith(prefix) else prefix + key: value for key, value in keys.items()},
    }


@pytest.mark.flink
@pytest.mark.parametrize("keys", CASES.values(), ids=CASES.keys())
def test_the_split_is_that_of_flinks_own_tool(keys, tmp_path):
    configuration = full(keys)
    pinned = {**configuration, "taskmanager.numberOfTaskSlots": "1"}
    (tmp_path / "config.yaml").write_text(render_yaml(pinned))
    installation = Installation(java=find_java(), flink_home=flink_home())
    output = subprocess.run(
        memory_command(installation, tmp_path), capture_output=True, text=True, check=True
    ).stdout
    theirs = parse_memory_arguments(output)

    ours = split_memory(configuration)

    assert set(ours.jvm) == set(theirs.jvm)
    settings = dict(word.split("=", 1) for word in theirs.dynamic if word != "-D")
    del settings["taskmanager.numberOfTaskSlots"]
    assert ours.settings == settings


def test_parts_that_leave_no_heap_are_refused_with_the_remedy():
    keys = full({**memory_recommendations(), "process.size": "512m", "managed.size": "400m"})

    with pytest.raises(PermanentError, match=r"512 MiB lacks .* raise spec.nodePools\[\].memory"):
        split_memory(keys)


@pytest.mark.parametrize("key", ["flink.size", "task.heap.size"])
def test_a_second_total_is_refused_by_name(key):
    keys = full({"process.size": "1g", key: "512m"})

    with pytest.raises(PermanentError, match=key):
        split_memory(keys)


def test_a_size_that_cannot_be_read_is_named():
    with pytest.raises(PermanentError, match=r"network\.min: expected a size such as 64m"):
        split_memory(full({"process.size": "1g", "network.min": "much"}))
