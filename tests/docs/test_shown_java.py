"""Every call of the Java helper that the pages show compiles."""

import os
import re
import subprocess

import pytest

from tests.docs.blocks import PAGES, ROOT, read_blocks
from weir_operator.flink.jars import HELPER, class_path, find_java
from weir_operator.flink.topology import Topology, idle_operators

pytestmark = pytest.mark.flink

_CALL = re.compile(r"`(Weir\.\w+\([^`]*\))`")
_SURROUNDINGS = """\
import dev.weir.Weir;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

final class Shown {
    static final class Match extends ProcessFunction<Long, Long> {
        @Override
        public void processElement(Long trip, Context context, Collector<Long> out) {}
    }

    static void show(
            StreamExecutionEnvironment env, StreamTableEnvironment tables, String[] args,
            SingleOutputStreamOperator<Long> trips, SingleOutputStreamOperator<Long> stream,
            DataStreamSink<Long> sink) {
SHOWN
    }
}
"""
"""What a reader has around the lines that a page shows."""


def shown_lines():
    """Return the Java that pages and messages show, by where it stands."""
    found = {}
    for page in PAGES:
        for call in _CALL.finditer(page.read_text()):
            found[f"{page.relative_to(ROOT)}: {call[1]}"] = f"{call[1]};"
    for block in read_blocks():
        if block.language == "java":
            found[str(block)] = block.text
    message = idle_operators(Topology(operators=(), vertices={}, edges=(), sources=()), ["match"])
    [call] = re.findall(r"Weir\.pin\([^)]*\)", message or "")
    found["the message of an operator that is not pinned"] = f"{call};"
    [example] = re.findall(r"<pre>\{@code\n(.*?)\}</pre>", HELPER.read_text(), re.S)
    found["the helper's own documentation"] = example.replace(" * ", "").strip() + ";"
    return found


SHOWN = shown_lines()


def test_what_is_shown_compiles(tmp_path):
    lines = []
    for where, text in SHOWN.items():
        lines += [f"{{ // {where}", text, "}"]
    source = tmp_path / "Shown.java"
    source.write_text(_SURROUNDINGS.replace("SHOWN", "\n".join(lines)))
    javac = find_java().with_name("javac")
    jars = os.pathsep.join([str(HELPER.parents[2]), class_path()])

    answer = subprocess.run(
        [str(javac), "-proc:none", "-nowarn", "-cp", jars, "-d", str(tmp_path), str(source)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
