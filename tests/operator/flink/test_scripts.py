"""What Flink says of scripts, read from traces and logs."""

import pytest

from weir_operator.errors import NotInProgramError, PermanentError, TemporaryError
from weir_operator.flink import programs
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.scripts import read_failure, read_python_error, read_refusal

TRACE = """\
<Exception on server side:
org.apache.flink.client.program.ProgramInvocationException: The main method caused an error: q.sql
Caused by: dev.weir.RunScript$Refusal: weir-script: q.sql, line 3: Object 'b' not found
\tat dev.weir.RunScript.run(RunScript.java:120)
Caused by: org.apache.flink.table.api.ValidationException: Object 'b' not found
"""
LOG = """\
2026-11-23T18:38:44,880 INFO  o.a.f.c.p.PythonDriver - ------ Python Process Started ------
2026-11-23T18:38:44,884 INFO  o.a.f.c.p.PythonDriver - Traceback (most recent call last):
2026-11-23T18:38:44,884 INFO  o.a.f.c.p.PythonDriver - ModuleNotFoundError: No module named 'x'
2026-11-23T18:38:44,909 INFO  o.a.f.c.p.PythonDriver - ------ Python Process Exited ------
2026-11-23T18:38:44,909 ERROR o.a.f.c.p.PythonDriver - Run python process failed
"""


def test_a_refusal_is_the_scripts_sentence_and_not_flinks():
    assert read_refusal(TRACE) == "spec.flink.job.sql: q.sql, line 3: Object 'b' not found"
    assert read_refusal("Caused by: java.io.IOException: disk full") is None
    assert read_failure(TRACE) is None


@pytest.mark.parametrize(
    ("mark", "error"), [("weir-script", PermanentError), ("weir-script-failed", TemporaryError)]
)
async def test_a_plan_is_asked_for_again_only_where_that_may_help(monkeypatch, mark, error):
    async def answer(*arguments, **options):
        return f"Caused by: dev.weir.RunScript: {mark}: q.sql, line 3: why"

    monkeypatch.setattr(programs, "ask_program", answer)

    program = programs.Program(entry_class=None, arguments=(), configuration={})
    with pytest.raises(error, match=r"^spec\.flink\.job\.sql: q\.sql, line 3: why$"):
        await programs.read_plan(FlinkRest("http://no"), "x.jar", program)


async def test_a_jar_without_the_class_to_run_is_told_from_a_program_that_may_run(monkeypatch):
    async def answer(*arguments, **options):
        return "Caused by: java.lang.ClassNotFoundException: example.Tripz\n\tat dev.weir.ReadGraph"

    monkeypatch.setattr(programs, "ask_program", answer)

    for entry_class, error in (("example.Tripz", NotInProgramError), ("example.T", PermanentError)):
        program = programs.Program(entry_class=entry_class, arguments=(), configuration={})
        with pytest.raises(PermanentError, match=r"example\.Tripz") as raised:
            await programs.read_plan(FlinkRest("http://no"), "x.jar", program)
        assert type(raised.value) is error


def test_what_a_python_program_printed_last_is_its_error():
    assert read_python_error(LOG) == "ModuleNotFoundError: No module named 'x'"
    assert read_python_error("") is None
