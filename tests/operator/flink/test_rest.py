"""Errors of Flink's REST interface, against a server that answers as Flink 2.3.0 did."""

import asyncio
import contextlib
import json
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.operator.bombs import gzipped, noting_threads, peak_memory_of
from tests.operator.rescale.fakes import FakeClock
from weir_operator.accounts import Account
from weir_operator.api.leader import LeaseLostError
from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.flink import answers
from weir_operator.flink.job_graph import Plan
from weir_operator.flink.programs import Program, warm_up_id
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.topology import discover, group_vertices
from weir_operator.flink.transport import NotKnownToFlinkError, RefusedByFlinkError
from weir_operator.limits import FLINK_ANSWER, FLINK_SUBTASKS
from weir_operator.rescale.flink import READ_AGAIN_AFTER, FlinkJobs
from weir_operator.runtime.protocol import Runtime

RECORDED = Path(__file__).parent / "recorded"
JOB = "a" * 32
TRIGGER = "b" * 32


class Answers:
    """Answers each path with what a test told it; remembers what it was sent."""

    def __init__(self):
        self.url = ""
        self.given = {}
        self.redirects = {}
        self.headers = {}
        self.bodies = []

    def give(self, method, path, *, status=200, body=None, name=None):
        text = (RECORDED / f"{name}.json").read_text() if name else json.dumps(body)
        self.given[method, path] = (status, text)

    def refuse(self, method, path, *, status, reason):
        self.give(method, path, status=status, body={"errors": ["Bad.", reason]})

    async def handle(self, request):
        if request.content_type == "application/json":
            self.bodies.append(await request.json())
        if (request.method, request.path) in self.redirects:
            status, place = self.redirects[request.method, request.path]
            return web.Response(status=status, headers={"Location": place})
        status, text = self.given[request.method, request.path]
        if text == '"silence"':
            await asyncio.Event().wait()
        body = text if isinstance(text, bytes) else text.encode()
        return web.Response(status=status, body=body, headers=self.headers)


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
        with pytest.raises(TemporaryError, match=r"0\.05 s"):
            await rest.task_managers()


async def test_a_refused_connection_is_a_temporary_error(unused_tcp_port):
    async with FlinkRest(f"http://127.0.0.1:{unused_tcp_port}") as rest:
        with pytest.raises(TemporaryError):
            await rest.jobs()


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff\xfe not UTF-8",
        b"[" * 100_000,
        b'["a list for a map"]',
        b'{"jobs": {"a map": "for a list"}}',
        b'{"jobs": [{"jid": "a", "state": "s3cret"}]}',
        b'{"jobs": null}',
        b"null",
        b"7",
        b"",
        b"<html>s3cret</html>",
    ],
)
async def test_an_answer_that_is_not_flinks_is_an_error_that_quotes_nothing(flink, rest, answer):
    flink.given["GET", "/jobs/overview"] = (200, answer)

    with pytest.raises(PermanentError) as raised:
        await rest.jobs()

    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "error"), [(403, PermanentError), (404, PermanentError), (502, TemporaryError)]
)
@pytest.mark.parametrize(
    "answer", [b"s3cret", b'{"error": "s3cret"}', b'["s3cret"]', b'{"errors": {"s3cret": 1}}']
)
async def test_a_refusal_that_is_not_flinks_is_not_quoted(flink, rest, status, error, answer):
    flink.given["GET", "/jobs/overview"] = (status, answer)

    with pytest.raises(error, match=f"status {status}") as raised:
        await rest.jobs()

    assert "s3cret" not in str(raised.value)


async def test_that_something_else_knows_no_job_does_not_mean_that_it_is_gone(flink, rest):
    flink.given["GET", f"/jobs/{JOB}"] = (404, b"404 page not found")

    with pytest.raises(PermanentError):
        await rest.job(JOB)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_nothing_is_sent_twice(flink, rest, status):
    flink.redirects["POST", "/jars/x.jar/run"] = (status, f"{flink.url}/elsewhere")

    with pytest.raises(PermanentError, match=str(status)):
        await rest.run_jar("x.jar", job_id=JOB)

    assert len(flink.bodies) == 1


async def test_a_connection_that_breaks_off_in_odd_words_is_told_without_them(unused_tcp_port):
    async def speak(reader, writer):
        await reader.readline()
        writer.write(b"s3cret of a protocol\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak, "127.0.0.1", unused_tcp_port)
    async with server, FlinkRest(f"http://127.0.0.1:{unused_tcp_port}") as rest:
        with pytest.raises(TemporaryError) as raised:
            await rest.jobs()

    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_is_a_bomb_costs_a_few_megabytes_and_names_the_limit(flink, status):
    flink.given["GET", "/jobs/overview"] = (status, gzipped(150))
    flink.headers = {"Content-Encoding": "gzip"}
    async with FlinkRest(flink.url, timeout=60.0) as rest:
        peak = await peak_memory_of(
            rest.jobs(), TemporaryError, "cannot read .*: it has more than 1 MiB"
        )

    assert peak < 32 * 2**20


async def test_a_program_whose_plan_is_too_large_is_not_asked_again_under_another_id(
    flink,
):
    Account().use()
    uploads = [f"{uuid.uuid4()}_weir-programs.jar" for _ in range(2)]
    for each in uploads:
        flink.give("POST", f"/jars/{each}/plan", status=400, body="Caused by: ".ljust(2**21))

    async with FlinkRest(flink.url) as rest:
        for each in uploads:
            with pytest.raises(TemporaryError, match=r"POST /jars/weir-programs.jar/plan: it has"):
                await rest.plan_jar(each, entry_class="example.Trips", arguments=())

    assert len(flink.bodies) == 1


async def test_a_large_answer_is_parsed_beside_the_event_loop(flink, monkeypatch):
    threads: list[threading.Thread] = []
    monkeypatch.setattr(answers, "read_subtasks", noting_threads(answers.read_subtasks, threads))
    task = {"subtask": 0, "status": "RUNNING", "taskmanager-id": "t" * 100}
    flink.give("GET", f"/jobs/{JOB}/vertices/v", body={"subtasks": [task] * 5_000})
    async with FlinkRest(flink.url, timeout=60.0) as rest:
        found = await rest.subtasks(JOB, "v")

    assert len(found) == 5_000
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


ASKED = {
    "/jobs/overview": lambda rest: rest.jobs(),
    "/jars": lambda rest: rest.jars(),
    "/taskmanagers": lambda rest: rest.task_managers(),
    f"/jobs/{JOB}": lambda rest: rest.job(JOB),
    f"/jobs/{JOB}/checkpoints": lambda rest: rest.checkpoints(JOB),
    f"/jobs/{JOB}/exceptions": lambda rest: rest.root_exception(JOB),
    f"/jobs/{JOB}/vertices/v": lambda rest: rest.subtasks(JOB, "v"),
}


LONG = {"/taskmanagers", f"/jobs/{JOB}", f"/jobs/{JOB}/vertices/v"}
PIECES = (b"[],", b"{},", b'{"a":1},', b"[[[[[[[[]]]]]]]],", b"1,")


@pytest.mark.parametrize(
    ("path", "piece", "status"),
    [
        *((path, b"{},", 200) for path in ASKED),
        *(("/jars", piece, status) for piece in PIECES for status in (200, 500)),
    ],
)
async def test_no_answer_costs_many_times_its_bytes(flink, path, piece, status):
    size = (FLINK_SUBTASKS if path in LONG else FLINK_ANSWER).bytes
    pieces = piece * ((size - 50) // len(piece))
    flink.given["GET", path] = (status, b'{"errors":[' + pieces + b"0]}")
    async with FlinkRest(flink.url, timeout=60.0) as rest:
        peak = await peak_memory_of(
            ASKED[path](rest), (TemporaryError, PermanentError), "Weir cannot read|Flink"
        )

    assert peak < 64 * 2**20


async def test_large_answers_of_many_streamapps_are_read_one_after_the_other(flink, monkeypatch):
    at_once, most = 0, 0

    def read(answer):
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        time.sleep(0.02)
        at_once -= 1
        return ()

    monkeypatch.setattr(answers, "read_task_managers", read)
    flink.give("GET", "/taskmanagers", body={"taskmanagers": ["x" * 2**20]})
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(FlinkRest(flink.url, timeout=60.0)) for _ in range(8)
        ]
        await asyncio.gather(*(each.task_managers() for each in clients))

    assert most == 1


async def test_an_unknown_job_is_none_and_its_subtasks_an_error(flink, rest):
    flink.refuse("GET", f"/jobs/{JOB}", status=404, reason="Job not found")
    flink.refuse("GET", f"/jobs/{JOB}/vertices/v", status=404, reason="Job not found")

    assert await rest.job(JOB) is None
    with pytest.raises(NotKnownToFlinkError, match="Job not found"):
        await rest.subtasks(JOB, "v")


async def test_a_program_that_throws_is_refused_with_its_own_words(flink, rest):
    flink.give("POST", "/jars/x.jar/run", status=400, name="run-refused")

    with pytest.raises(
        RefusedByFlinkError,
        match=r"^spec\.flink\.job: .*IllegalStateException: told to fail",
    ):
        await rest.run_jar("x.jar", job_id=JOB)


@pytest.mark.parametrize(
    ("status", "reason", "entry_class", "error", "sentence"),
    [
        pytest.param(
            500,
            "a.b.ProgramInvocationException: no class\n"
            "Caused by: java.lang.ClassNotFoundException: example.Nope",
            "example.Nope",
            RefusedByFlinkError,
            r"^spec\.flink\.job\.entryClass: .*'example\.Nope'",
            id="a class that is not in the jar, of which Flink takes the blame",
        ),
        pytest.param(
            400,
            "a.b.ProgramInvocationException: Neither a 'Main-Class', nor a 'program-class' entry"
            " was found in the jar file.",
            None,
            RefusedByFlinkError,
            "entryClass: ",
            id="a jar that names no class",
        ),
        pytest.param(
            400,
            "Caused by: dev.weir.RunScript$Failure: weir-script-failed: q.sql, line 3: refused",
            "dev.weir.RunScript",
            TemporaryError,
            r"^spec\.flink\.job\.sql: q\.sql, line 3: refused$",
            id="a script whose catalog does not answer, which may be submitted later",
        ),
    ],
)
async def test_what_flink_cannot_submit_is_told_by_its_field(
    flink, rest, status, reason, entry_class, error, sentence
):
    flink.refuse("POST", "/jars/x.jar/run", status=status, reason=reason)

    with pytest.raises(error, match=sentence):
        await rest.run_jar("x.jar", job_id=JOB, entry_class=entry_class)


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
    with pytest.raises(PermanentError, match=r"nope\.jar"):
        await rest.upload_jar(str(tmp_path / "nope.jar"))


def a_task_manager(name, managed):
    [answer, *_] = json.loads((RECORDED / "taskmanagers.json").read_text())["taskmanagers"]
    return {**answer, "id": name, "totalResource": answer["totalResource"] | {
        "managedMemory": managed
    }}  # fmt: skip


@pytest.fixture
def submit(flink):
    """Submit a job of two operators; return what Flink was sent as its configuration."""
    flink.give("POST", "/jars/x.jar/run", body={"jobid": JOB})

    async def replicas():
        names = {"a-1": "a", "a-2": "a", "b-1": "b"}
        return [SimpleNamespace(id=name, operator=operator) for name, operator in names.items()]

    async def provide_jar():
        return "x.jar"

    async def submit(configuration):
        runtime = SimpleNamespace(rest_url=flink.url, replicas=replicas, provide_jar=provide_jar)
        jobs = FlinkJobs(cast(Runtime, runtime))
        try:
            program = Program(entry_class=None, arguments=(), configuration=configuration)
            await jobs.submit(JOB, program, restore_path=None)
        finally:
            await jobs.close()
        return flink.bodies[-1].get("flinkConfiguration")

    return submit


async def test_a_job_manager_that_has_no_resource_manager_yet_is_asked_again_later(flink):
    flink.give("GET", "/taskmanagers", status=404, body={"errors": ["Cannot connect right now."]})

    async with FlinkRest(flink.url) as rest:
        with pytest.raises(TemporaryError, match="Cannot connect right now"):
            await rest.task_managers()


async def test_slots_are_asked_for_the_managed_memory_that_all_task_managers_offer(flink, submit):
    offered = [("a-1", 128), ("a-2", 200), ("b-1", 64), ("stranger", 1)]
    flink.give("GET", "/taskmanagers", body={"taskmanagers": [a_task_manager(*o) for o in offered]})

    sent = await submit({"weir.parallelism.a": "2", "weir.parallelism.b": "1"})

    assert sent == {
        "weir.parallelism.a": "2",
        "weir.parallelism.b": "1",
        "weir.managed-memory.a": "128m",
        "weir.managed-memory.b": "64m",
    }


async def test_a_job_is_not_submitted_while_nobody_offers_memory_to_one_of_its_operators(
    flink, submit
):
    flink.give("GET", "/taskmanagers", body={"taskmanagers": [a_task_manager("a-1", 128)]})

    with pytest.raises(TemporaryError, match=r"\bb\b"):
        await submit({"weir.parallelism.a": "1", "weir.parallelism.b": "1"})
    assert flink.bodies == []


async def test_a_job_that_is_one_operator_takes_slots_as_they_are(flink, submit):
    assert await submit({}) is None


async def test_a_program_that_could_not_be_read_is_read_again_after_a_while(flink, monkeypatch):
    plan = Plan(groups=frozenset(), agent="ready", vertices=())
    tries: list[PermanentError | Plan] = [PermanentError("no file")] * 2 + [plan]
    asked: list[PermanentError | Plan] = []

    async def read_plan(*_, **__):
        asked.append(tries[len(asked)])
        if isinstance(asked[-1], PermanentError):
            raise asked[-1]
        return asked[-1]

    async def provide_jar():
        return "x.jar"

    monkeypatch.setattr("weir_operator.rescale.flink.read_plan", read_plan)
    runtime = SimpleNamespace(rest_url=flink.url, provide_jar=provide_jar, job_manager_process="1")
    clock = FakeClock()
    jobs = FlinkJobs(cast(Runtime, runtime), clock=clock)

    async def read():
        plan = await jobs.read_plan(Program(entry_class=None, arguments=(), configuration={}))
        return plan, jobs.unread, len(asked)

    first, at_once = await read(), await read()
    await clock.sleep(READ_AGAIN_AFTER)
    later = await read()
    await clock.sleep(READ_AGAIN_AFTER)
    at_last, again = await read(), await read()
    await jobs.close()

    assert first == at_once == (None, "no file", 1)
    assert later == (None, "no file", 2)
    assert at_last == again == (plan, "", 3)


async def test_counts_of_keys_are_those_of_all_tasks_that_deal_by_key(flink):
    job = answers.read_job(json.loads((RECORDED / "job.json").read_text()))
    topology = group_vertices(job, {each.id: each.name for each in job.vertices})
    (_, vertex), (receiver, receiving) = topology.keyed
    lines = ["work 2 a 0 1 3,7", "work 2 a 0 1 5,5 abcd0123:1:4"]
    flink.give(
        "GET",
        f"/jobs/{JOB}/vertices/{vertex.id}/metrics",
        body=[{"id": f"{place}.weir_keys", "value": line} for place, line in enumerate(lines)],
    )
    time = "sink 2 a 0 1 9,1\n. 2 a 0 1 3,7"
    flink.give(
        "GET",
        f"/jobs/{JOB}/vertices/{receiving.id}/metrics",
        body=[{"id": "0.weir_keys", "value": time}],
    )
    jobs = FlinkJobs(cast(Runtime, SimpleNamespace(rest_url=flink.url)))

    found = await jobs.key_texts(JOB, topology)
    for _, each in topology.keyed:
        flink.give("GET", f"/jobs/{JOB}/vertices/{each.id}/metrics", body=[])
    without_agent = await jobs.key_texts(JOB, topology)
    for _, each in topology.keyed:
        refused = (404, '{"errors": ["No."]}')
        flink.given["GET", f"/jobs/{JOB}/vertices/{each.id}/metrics"] = refused
    before_metrics = await jobs.key_texts(JOB, topology)
    await jobs.close()

    assert found == (*lines, f"sink 2 a 0 1 9,1\n.{receiver} 2 a 0 1 3,7")
    assert without_agent == before_metrics == ()


async def test_the_jobs_that_run_are_those_that_have_not_ended(flink):
    states = {"RUNNING": "1", "RESTARTING": "2", "CANCELLING": "3", "FINISHED": "4", "FAILED": "5"}
    [job] = json.loads((RECORDED / "jobs.json").read_text())["jobs"]
    listed = [{**job, "state": state, "jid": digit * 32} for state, digit in states.items()]
    flink.give("GET", "/jobs/overview", body={"jobs": listed})
    jobs = FlinkJobs(cast(Runtime, SimpleNamespace(rest_url=flink.url)))

    live = await jobs.live()
    await jobs.close()

    assert live == ("1" * 32, "2" * 32, "3" * 32)


async def test_questions_asked_at_once_of_a_new_address_share_one_client(flink):
    flink.give("GET", "/jobs/overview", body={"jobs": []})
    runtime = SimpleNamespace(rest_url=flink.url)
    jobs = FlinkJobs(cast(Runtime, runtime))
    await jobs.live()
    former = await jobs.rest()
    runtime.rest_url = f"{flink.url}/"

    one, other = await asyncio.gather(jobs.rest(), jobs.rest())
    await jobs.close()

    assert one is other is not former


async def test_a_job_that_warms_up_taskmanagers_is_none_of_the_jobs(flink):
    [job] = json.loads((RECORDED / "jobs.json").read_text())["jobs"]
    warm_up = warm_up_id()
    listed = [{**job, "state": "RUNNING", "jid": each} for each in (JOB, warm_up)]
    flink.give("GET", "/jobs/overview", body={"jobs": listed})
    flink.give("PATCH", f"/jobs/{warm_up}", status=202, body={})
    jobs = FlinkJobs(cast(Runtime, SimpleNamespace(rest_url=flink.url)))

    live, warming_up = await jobs.live(), await jobs.is_warming_up()
    await jobs.cancel_warm_up()  # a request for another job would find no answer
    await jobs.close()

    assert (live, warming_up) == ((JOB,), True)


async def test_nothing_is_changed_that_the_guard_forbids(flink):
    flink.give("GET", "/jobs/overview", body={"jobs": []})

    async def refuse():
        raise LeaseLostError("lost")

    async with FlinkRest(flink.url, guard=refuse) as rest:
        assert await rest.jobs() == ()
        for change in (
            rest.stop_with_savepoint(JOB, trigger_id=TRIGGER),
            rest.cancel(JOB),
            rest.run_jar("x.jar", job_id=JOB),
            rest.dispose_savepoint("file:/savepoint"),
        ):
            with pytest.raises(LeaseLostError):
                await change

    assert flink.bodies == []


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "cause",
    [
        "java.net.ConnectException: Connection refused",
        "org.apache.flink.runtime.rpc.exceptions.RpcConnectionException: Could not connect",
        "java.nio.channels.ClosedChannelException",
        "java.util.concurrent.TimeoutException: ask",
        "org.apache.flink.runtime.rest.handler.RestHandlerException: Another update to the job [%s]"
        " resource requirements is in progress.",
    ],
)
async def test_a_part_of_flink_that_is_not_there_or_still_at_work_is_temporary(
    flink, rest, status, cause
):
    reason = (
        f"org.apache.flink.util.FlinkException: failed\n\tat a.B.c(B.java:1)\nCaused by: {cause}"
    )
    flink.refuse("POST", "/jars/x.jar/run", status=status, reason=reason)

    with pytest.raises(TemporaryError, match=JOB):
        await rest.run_jar("x.jar", job_id=JOB)


async def test_sentences_for_people_name_no_addresses(flink, rest, unused_tcp_port):
    flink.refuse("PATCH", f"/jobs/{JOB}", status=503, reason="java.io.IOException: no")
    flink.refuse("POST", f"/jobs/{JOB}/stop", status=400, reason="java.io.IOException: no")
    flink.give("GET", "/jobs/overview", body={"hello": "world"})
    errors = []
    async with FlinkRest(f"http://127.0.0.1:{unused_tcp_port}") as nobody:
        for call in (
            rest.cancel(JOB),
            rest.stop_with_savepoint(JOB, trigger_id=TRIGGER),
            rest.jobs(),
            nobody.task_managers(),
        ):
            with pytest.raises(WeirError) as raised:
                await call
            errors.append(str(raised.value))

    assert f"{JOB} (503): IOException: no" in errors[0]
    assert JOB in errors[1]
    assert "(400)" in errors[1]
    assert "GET /jobs/overview" in errors[2]
    assert "GET /taskmanagers: Connection refused" in errors[3]
    assert not [each for each in errors if "http" in each or "127.0.0.1" in each]


async def test_a_jobmanager_that_has_not_read_the_graph_yet_is_asked_again(flink, rest):
    job = json.loads((RECORDED / "job.json").read_text())
    flink.give("GET", f"/jobs/{JOB}", body={**job, "vertices": [], "state": "INITIALIZING"})

    with pytest.raises(TemporaryError):
        await discover(rest, JOB, {})
