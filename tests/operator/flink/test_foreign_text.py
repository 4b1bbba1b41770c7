"""Whatever reads text of somebody else takes time in proportion to its length.

A regular expression that does not holds the interpreter's lock while it runs, so that every thread
of the controller waits for it.
"""

import contextlib
import time
from collections.abc import Callable

import pytest

from weir_operator.advise.flink_deployment import read_memory
from weir_operator.advise.metrics import _extras
from weir_operator.api.client import _message
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.causes import (
    cause_in_log,
    find_misfitting_state,
    find_missing_class,
    root_cause,
)
from weir_operator.flink.job_graph import parse_plan
from weir_operator.flink.memory import size_task_manager
from weir_operator.flink.options import find_refused_values, read_duration, read_size
from weir_operator.flink.scripts import read_failure, read_python_error, read_refusal
from weir_operator.flink.transport import may_pass
from weir_operator.metrics.direct import _select
from weir_operator.runtime.pods.pod_states import waiting_for
from weir_operator.tuning.protocol import read_frames

LENGTH = 100_000
SECONDS = 1.0
"""What is linear takes some 10 ms on a slow machine, what is square at least 5 s."""


def ending_with(text):
    last = {"terminated": {"message": text}}
    container = {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    return {"status": {"containerStatuses": [{**container, "lastState": last}]}}


def size_by(text):
    size_task_manager({"taskmanager.memory.jvm-metaspace.size": text}, process=1024)


READERS: dict[str, Callable[[str], object]] = {
    "cause": root_cause,
    "log": cause_in_log,
    "misfitting state": find_misfitting_state,
    "missing class": lambda text: find_missing_class(text, "a.B"),
    "last words": lambda text: waiting_for(ending_with(text), 0.0),
    "page": lambda text: _select(text.encode()),
    "passing": may_pass,
    "refusal": read_refusal,
    "failure": read_failure,
    "python": read_python_error,
    "frames": read_frames,
    "API server": _message,
    "plan": lambda text: parse_plan([text]),
    "metric": lambda text: list(_extras([text], True)),
    "flink's size": size_by,
    "operator's size": read_memory,
    "option's size": read_size,
    "option's duration": read_duration,
    # No value of a manifest is longer.
    "options": lambda text: list(find_refused_values({"env.java.opts.all": text[:8192]})),
}
HOSTILE = (
    "\n",
    "\r",
    " ",
    "\t",
    "1",
    "a",
    "a.",
    "a.a: ",
    "Caused by: ",
    "\n Caused by: a.b: ",
    "Another update to the job ",
    "The maximum parallelism ",
    "Cannot map checkpoint/savepoint state for operator ",
    "ClassNotFoundException: a.B",
    "flink_taskmanager_job_task_operator_a",
    "_pendingRecords",
    "PythonDriver  ",
    "weir-script: ",
    "weir-answer ",
    "weir-answer a 1/1 b\n",
    "&value.valueUnstructured{",
    "&value.valueUnstructured{}",
    "0.KafkaSourceReader.topic.t.partition.1.",
    "0.latency.source_id.a.operator_id.b.",
    "-XX:+Use",
)


@pytest.mark.parametrize("reader", READERS)
def test_text_of_somebody_else_is_read_in_linear_time(reader):
    for piece in HOSTILE:
        filling = piece * (LENGTH // len(piece))
        for text in (
            filling,
            f"1{filling}!",
            f"0.{filling}.currentOffset",
            f"PythonDriver -{filling}\n!",
        ):
            began = time.thread_time()
            with contextlib.suppress(PermanentError, TemporaryError):
                READERS[reader](text)

            assert time.thread_time() - began < SECONDS, piece


def test_a_million_line_feeds_have_no_cause():
    began = time.thread_time()

    assert root_cause("\n" * 1_000_000) == "no cause given"
    assert time.thread_time() - began < SECONDS


def test_the_cause_below_which_a_whole_stack_stands_is_found():
    frames = "\tat org.apache.flink.streaming.runtime.tasks.StreamTask.invoke(StreamTask.java:1)\n"
    trace = f"a.Outer: x\nCaused by: java.lang.StackOverflowError\n{frames * 1024}"

    assert root_cause(trace) == "StackOverflowError"
