"""Errors of Flink's REST interface, against a server that answers as Flink 2.3.0 did."""

import asyncio
import json
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.transport import NotKnownToFlinkError, RefusedByFlinkError

RECORDED = Path(__file__).parent / "recorded"
JOB = "a" * 32
TRIGGER = "b" * 32


class Answers:
    """Answers each path with what a test told it; remembers what it was sent."""

    def __init__(self):
        self.url = ""
        self.given = {}
        self.bodies = []

    def give(self, method, path, *, status=200, body=None, name=None):
        text = (RECORDED / f"{name}.json").read_text() if name else json.dumps(body)
        self.given[method, path] = (status, text)

    def refuse(self, method, path, *, status, reason):
        self.give(method, path, status=status, body={"errors": ["Bad.", reason]})

    async def handle(self, request):
        if request.content_type == "application/json":
            self.bodies.append(await request.json())
        status, text = self.given[request.method, request.path]
        if text == '"silence"':
            await asyncio.Event().wait()
        return web.Response(status=status, text=text)


@pytest_asyncio.fixture
async def flink():
    answers = Answers()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answers.handle)
    async with TestServer(application) as server:
        answers.url = str(server.make_url("")).rstrip("/")
        yield answers


@pytest_asyncio.fixture
async def rest(flink):
    async with FlinkRest(flink.url, timeout=2.0) as client:
        yield client


async def test_a_job_manager_that_says_nothing_is_a_temporary_error(flink):
    flink.give("GET", "/taskmanagers", body="silence")
    async with FlinkRest(flink.url, timeout=0.05) as rest:
        with pytest.raises(TemporaryError, match=r"did not answer .* within 0.05 s"):
            await rest.task_managers()


async def test_a_refused_connection_is_a_temporary_error(unused_tcp_port):
    async with FlinkRest(f"http://127.0.0.1:{unused_tcp_port}") as rest:
        with pytest.raises(TemporaryError, match="cannot be reached"):
            await rest.jobs()


async def test_a_stranger_at_the_port_is_told_from_flink(flink, rest):
    flink.give("GET", "/jobs/overview", body={"hello": "world"})

    with pytest.raises(PermanentError, match="something else listening"):
        await rest.jobs()


async def test_a_server_error_is_temporary_and_tells_the_cause(flink, rest):
    flink.refuse("GET", "/taskmanagers", status=503, reason="java.io.IOException: election")

    with pytest.raises(TemporaryError, match=r"\(503\): IOException: election"):
        await rest.task_managers()


async def test_an_unknown_job_is_none_and_its_subtasks_an_error(flink, rest):
    flink.refuse("GET", f"/jobs/{JOB}", status=404, reason="Job not found")
    flink.refuse("GET", f"/jobs/{JOB}/vertices/v", status=404, reason="Job not found")

    assert await rest.job(JOB) is None
    with pytest.raises(NotKnownToFlinkError, match="Job not found"):
        await rest.subtasks(JOB, "v")


async def test_a_program_that_throws_is_refused_with_its_own_words(flink, rest):
    flink.give("POST", "/jars/x.jar/run", status=400, name="run-refused")

    with pytest.raises(RefusedByFlinkError, match=r"IllegalStateException: told to fail$"):
        await rest.run_jar("x.jar", job_id=JOB)


async def test_a_program_that_is_not_in_the_jar_is_refused_though_flink_blames_itself(flink, rest):
    flink.refuse(
        "POST",
        "/jars/x.jar/run",
        status=500,
        reason="a.b.ProgramInvocationException: no class\nCaused by: a.ClassNotFoundException: X",
    )

    with pytest.raises(RefusedByFlinkError, match="ClassNotFoundException: X"):
        await rest.run_jar("x.jar", job_id=JOB, entry_class="X")


async def test_a_submission_that_ran_into_flinks_own_time_limit_is_temporary(flink, rest):
    flink.refuse(
        "POST",
        "/jars/x.jar/run",
        status=400,
        reason="a.b.RestHandlerException: x\nCaused by: java.util.concurrent.TimeoutException: ask",
    )

    with pytest.raises(TemporaryError, match="TimeoutException: ask"):
        await rest.run_jar("x.jar", job_id=JOB)


async def test_submitting_twice_under_one_id_changes_nothing(flink, rest):
    flink.give("POST", "/jars/x.jar/run", status=400, name="run-duplicate")

    await rest.run_jar("x.jar", job_id=JOB)

    assert flink.bodies[-1]["jobId"] == JOB


async def test_a_submission_never_drops_state_and_never_owns_what_it_starts_from(flink, rest):
    flink.give("POST", "/jars/x.jar/run", body={"jobid": JOB})

    await rest.run_jar(
        "x.jar",
        job_id=JOB,
        entry_class="a.Main",
        arguments=["--x", "1 2"],
        parallelism=3,
        savepoint_path="file:/s",
    )

    assert flink.bodies == [
        {
            "jobId": JOB,
            "programArgsList": ["--x", "1 2"],
            "allowNonRestoredState": False,
            "entryClass": "a.Main",
            "parallelism": 3,
            "savepointPath": "file:/s",
            "claimMode": "NO_CLAIM",
        }
    ]


async def test_a_stop_carries_the_callers_trigger_and_keeps_the_stream_open(flink, rest):
    flink.give("POST", f"/jobs/{JOB}/stop", status=202, body={"request-id": TRIGGER})

    await rest.stop_with_savepoint(JOB, trigger_id=TRIGGER)

    assert flink.bodies == [{"triggerId": TRIGGER, "drain": False, "formatType": "NATIVE"}]


async def test_an_unknown_trigger_is_none(flink, rest):
    flink.refuse("GET", f"/jobs/{JOB}/savepoints/{TRIGGER}", status=404, reason="no operation")

    assert await rest.savepoint_status(JOB, TRIGGER) is None


async def test_cancelling_a_job_that_has_ended_or_is_unknown_leaves_it_alone(flink, rest):
    flink.refuse(
        "PATCH",
        f"/jobs/{JOB}",
        status=409,
        reason="a.RestHandlerException: Job cancellation failed because the job has already"
        " reached another terminal state (FINISHED).",
    )
    flink.refuse("PATCH", "/jobs/unknown", status=404, reason="Job not found")

    await rest.cancel(JOB)
    await rest.cancel("unknown")


async def test_a_cancellation_that_is_refused_for_another_reason_is_an_error(flink, rest):
    flink.refuse("PATCH", f"/jobs/{JOB}", status=400, reason="java.lang.Error: no")

    with pytest.raises(RefusedByFlinkError, match="Error: no"):
        await rest.cancel(JOB)


async def test_a_savepoint_that_is_already_gone_counts_as_disposed(flink, rest):
    flink.give("POST", "/savepoint-disposal", body={"request-id": "t"})
    flink.give(
        "GET", "/savepoint-disposal/t", body=failed_disposal("java.io.FileNotFoundException: x")
    )

    await rest.dispose_savepoint("file:/s")

    assert flink.bodies == [{"savepoint-path": "file:/s"}]


async def test_a_savepoint_that_cannot_be_deleted_says_why(flink, rest):
    flink.give("POST", "/savepoint-disposal", body={"request-id": "t"})
    flink.give("GET", "/savepoint-disposal/t", body=failed_disposal("java.io.IOException: rights"))

    with pytest.raises(PermanentError, match="IOException: rights"):
        await rest.dispose_savepoint("file:/s")


def failed_disposal(trace):
    return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": {"stack-trace": trace}}}


async def test_deleting_a_jar_that_is_gone_changes_nothing(flink, rest):
    flink.give("GET", "/jars", body={"files": [{"id": "other.jar"}]})

    await rest.delete_jar("gone.jar")

    assert await rest.jars() == ("other.jar",)


async def test_a_jar_that_cannot_be_read_is_named(rest, tmp_path):
    with pytest.raises(PermanentError, match=r"readable jar at .*nope\.jar"):
        await rest.upload_jar(str(tmp_path / "nope.jar"))
