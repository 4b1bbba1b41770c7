"""The client of the API server, against a small server that answers as it is told."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.operator.http_server import serving
from weir_operator.api.client import (
    ATTEMPTS,
    CONNECTIONS,
    FIELD_MANAGER_CONFLICT,
    JSON_PATCH,
    ConflictError,
    KubernetesApi,
    NotFoundError,
    RefusedByKubernetesError,
    find_proxy,
)
from weir_operator.api.leader import LeaseLostError
from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.limits import TooLargeError

PODS = "/api/v1/namespaces/streams/pods"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Answers requests in turn, the last answer for ever; remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, dict[str, str], str]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.method, str(request.rel_url), headers, await request.text()))
        return await self.answers[min(len(self.asked), len(self.answers)) - 1](request)


def answers(status: int, body: Any = None, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            body if body is not None else {"kind": "Status", "message": "because"},
            status=status,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )

    return answer


async def hangs(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def write_kubeconfig(file: Path, server: Server, token: str = "first") -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server.url}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    file.write_text(yaml.safe_dump(config))


@pytest.fixture
def connected(tmp_path, monkeypatch):
    """Returns a way to a client of a server; its pauses are noted instead of made."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    file = tmp_path / "kubeconfig"
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))

    @contextlib.asynccontextmanager
    async def connect(server: Server, *, timeout: float = 5.0) -> AsyncIterator[KubernetesApi]:
        async with serving(server.handle) as server.url:
            write_kubeconfig(file, server)
            pauses: list[float] = []

            async def note(seconds: float) -> None:
                pauses.append(seconds)

            api = KubernetesApi(timeout, sleep=note)
            api.pauses = pauses  # type: ignore[attr-defined]
            try:
                yield api
            finally:
                await api.close()

    connect.file = file  # type: ignore[attr-defined]
    return connect


async def test_credentials_that_other_programs_keep_for_the_server_are_not_sent(
    connected, tmp_path, monkeypatch
):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password secret")
    monkeypatch.setenv("NETRC", str(netrc))
    server = Server(answers(200, {"kind": "Pod"}))

    async with connected(server) as api:
        await api.get(f"{PODS}/a")

    assert server.asked[0][2]["authorization"] == "Bearer first"


@pytest.mark.parametrize(
    ("bypassed", "proxy"), [("", "http://proxy:3128"), ("api.example.com", None)]
)
def test_the_proxy_is_that_of_the_environment(monkeypatch, bypassed, proxy):
    for name in ("HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", bypassed)

    assert find_proxy("https://api.example.com:6443") == proxy


async def test_requests_of_many_at_once_share_a_few_connections(connected):
    connections = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        connections.add(request.transport)
        return web.json_response({"kind": "Pod"})

    async with connected(Server(answer)) as api:
        found = await asyncio.gather(*(api.get(f"{PODS}/a") for _ in range(3 * CONNECTIONS)))

    assert len(found) == 3 * CONNECTIONS
    assert len(connections) <= CONNECTIONS


async def test_objects_too_large_for_one_answer_are_listed_a_few_at_once(connected):
    large = {"data": "x" * 2**20}

    async def list_some(request):
        begin = int(request.query.get("continue", 0))
        end = min(10, begin + int(request.query["limit"]))
        meta = {"continue": str(end)} if end < 10 else {}
        items = [{"n": number, **large} for number in range(begin, end)]
        return web.json_response({"items": items, "metadata": meta})

    async with connected(Server(list_some)) as api:
        found = await api.list(PODS)

    assert [each["n"] for each in found] == list(range(10))


async def test_a_list_that_nobody_may_keep_is_left_and_can_be_read_page_by_page(connected):
    asked = []

    async def list_for_ever(request):
        asked.append(request)
        meta = {"continue": "more"} if len(asked) < 100 else {}
        return web.json_response({"items": [{"data": "x" * 2**20}], "metadata": meta})

    async with connected(Server(list_for_ever)) as api:
        with pytest.raises(TooLargeError, match=f"list at {PODS}: it has more than 32 MiB"):
            await api.list(PODS)
        asked_then = len(asked)
        pages = [page async for page in api.pages(PODS)]

    assert asked_then == 32
    assert len(pages) == 100 - 32


@pytest.mark.parametrize(
    "content",
    [b'{"a":"%s"}' % (b"x" * 5 * 2**20), b"[%s0]" % (b"[]," * 600_000)],
    ids=["bytes", "values"],
)
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_beyond_the_limits_is_left_unread(connected, content, status):
    async def answer(_):
        return web.Response(body=content, status=status)

    async with connected(Server(answer)) as api:
        with pytest.raises(WeirError, match=f"(Weir cannot read|refused).*{PODS}/a"):
            await api.get(f"{PODS}/a")


async def test_a_list_brings_all_pages(connected):
    server = Server(
        answers(200, {"items": [{"n": 1}], "metadata": {"continue": "more"}}),
        answers(200, {"items": [{"n": 2}], "metadata": {}}),
    )

    async with connected(server) as api:
        found = await api.list(PODS, labels="weir.dev/app=trips", fields="spec.nodeName=large")

    assert found == ({"n": 1}, {"n": 2})
    assert "labelSelector=weir.dev/app%3Dtrips" in server.asked[0][1]
    assert "fieldSelector=spec.nodeName%3Dlarge" in server.asked[0][1]
    assert "continue=more" in server.asked[1][1]


async def test_apply_is_server_side_and_forced(connected):
    server = Server(answers(200, {"kind": "Pod"}))

    async with connected(server) as api:
        await api.apply(f"{PODS}/a", {"kind": "Pod"})

    method, path, headers, body = server.asked[0]
    assert (method, body) == ("PATCH", '{"kind": "Pod"}')
    assert path == f"{PODS}/a?fieldManager=weir&force=true"
    assert headers["content-type"] == "application/apply-patch+yaml"


async def test_a_list_of_operations_goes_as_json_patch(connected):
    server = Server(answers(200, {"kind": "Pod"}))

    async with connected(server) as api:
        await api.patch(f"{PODS}/a", [{"op": "remove", "path": "/x"}], JSON_PATCH)

    assert server.asked[0][2]["content-type"] == JSON_PATCH
    assert server.asked[0][3] == '[{"op": "remove", "path": "/x"}]'


async def test_a_log_comes_as_it_was_written_from_its_beginning(connected):
    async def log(_: web.Request) -> web.StreamResponse:
        return web.Response(text="one\ntwo\n")

    server = Server(log)

    async with connected(server) as api:
        text = await api.read_log(f"{PODS}/a", container="tuner", most=100)

    assert text == "one\ntwo\n"
    assert server.asked[0][:2] == ("GET", f"{PODS}/a/log?container=tuner&limitBytes=100")


async def test_a_deletion_says_grace_and_propagation(connected):
    server = Server(answers(200, {"kind": "Status"}))

    async with connected(server) as api:
        await api.delete(f"{PODS}/a", grace=0)

    assert json.loads(server.asked[0][3]) == {
        "propagationPolicy": "Background",
        "gracePeriodSeconds": 0,
    }


async def test_deleting_what_is_gone_is_no_error(connected):
    server = Server(answers(404))

    async with connected(server) as api:
        await api.delete(f"{PODS}/a")

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotFoundError), (409, ConflictError), (403, RefusedByKubernetesError)],
)
async def test_a_refusal_is_told_at_once_with_its_reason(connected, status, error):
    server = Server(answers(status))

    async with connected(server) as api:
        with pytest.raises(error, match=rf"GET {PODS}/a \({status}\): because"):
            await api.get(f"{PODS}/a")

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("details", "reasons"),
    [
        (
            {"causes": [{"reason": FIELD_MANAGER_CONFLICT, "field": ".spec.a"}]},
            [FIELD_MANAGER_CONFLICT],
        ),
        ({"name": "trips"}, []),
    ],
)
async def test_a_conflict_has_the_reasons_of_its_causes(connected, details, reasons):
    server = Server(answers(409, {"kind": "Status", "message": "because", "details": details}))

    async with connected(server) as api:
        with pytest.raises(ConflictError) as conflict:
            await api.apply(f"{PODS}/a", {}, force=False)

    assert sorted(conflict.value.reasons) == reasons


@pytest.mark.parametrize("trouble", [answers(429), answers(503), hangs_up])
async def test_what_passes_is_asked_again(connected, trouble):
    server = Server(trouble, trouble, answers(200, {"kind": "Pod"}))

    async with connected(server) as api:
        found = await api.get(f"{PODS}/a")

    assert found == {"kind": "Pod"}
    assert len(server.asked) == 3


@pytest.mark.parametrize("trouble", [answers(429), answers(500)])
async def test_what_does_not_pass_is_temporary(connected, trouble):
    server = Server(trouble)

    async with connected(server) as api:
        with pytest.raises(TemporaryError):
            await api.get(f"{PODS}/a")

    assert len(server.asked) == ATTEMPTS


@pytest.mark.parametrize(
    "message",
    [
        "failed to create typed patch object (a/b; apps/v1, Kind=Deployment): .spec.a: field not "
        "declared in schema",
        "failed to convert new object (a/b; apps/v1, Kind=Deployment) to proper version",
    ],
)
async def test_a_fault_of_what_is_applied_is_no_fault_of_the_server(connected, message):
    server = Server(answers(500, {"kind": "Status", "message": message}))

    async with connected(server) as api:
        with pytest.raises(RefusedByKubernetesError, match="failed to"):
            await api.apply(f"{PODS}/a", {"kind": "Pod"})

    assert len(server.asked) == 1


async def test_values_of_a_wrong_type_are_not_repeated_and_a_refusal_is_one_line(connected):
    message = (
        "failed to create typed patch object (a/b; apps/v1, Kind=Deployment): errors:\n"
        "  .spec.a: expected string, got &value.valueUnstructured{Value:271828}\n"
        '  .spec.b: expected list, got &value.valueUnstructured{Value:"one\\n271828 {x} y"}'
    )
    server = Server(answers(500, {"kind": "Status", "message": message}))

    async with connected(server) as api:
        with pytest.raises(RefusedByKubernetesError) as refusal:
            await api.apply(f"{PODS}/a", {"kind": "Pod"})

    assert str(refusal.value).endswith(
        "errors: .spec.a: expected string, got another type .spec.b: expected list, got another "
        "type"
    )


async def test_a_server_that_hangs_is_given_up_in_time(connected):
    server = Server(hangs)

    async with connected(server, timeout=0.05) as api:
        with pytest.raises(TemporaryError, match=r"0\.05 s"):
            await api.get(f"{PODS}/a")


async def test_the_server_says_how_long_to_pause(connected):
    server = Server(answers(429, Retry_After="3"), answers(200, {"kind": "Pod"}))

    async with connected(server) as api:
        await api.get(f"{PODS}/a")

        assert 3 <= api.pauses[0] < 9


async def test_a_pause_that_is_too_long_is_left_to_the_caller(connected):
    server = Server(answers(429, Retry_After="3600"))

    async with connected(server) as api:
        with pytest.raises(TemporaryError):
            await api.get(f"{PODS}/a")

    assert len(server.asked) == 1


@pytest.mark.parametrize("trouble", [answers(500), hangs_up])
async def test_a_creation_that_may_have_happened_is_not_sent_again(connected, trouble):
    server = Server(trouble, answers(201, {"kind": "Pod"}))

    async with connected(server) as api:
        with pytest.raises(TemporaryError):
            await api.create(PODS, {"kind": "Pod"})

    assert len(server.asked) == 1


async def test_a_creation_that_was_throttled_is_sent_again(connected):
    server = Server(answers(429), answers(201, {"kind": "Pod"}))

    async with connected(server) as api:
        made = await api.create(PODS, {"kind": "Pod"})

    assert made == {"kind": "Pod"}


async def test_a_token_that_is_refused_is_read_again(connected):
    async def takes_only_the_second(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer second":
            return web.json_response({"kind": "Pod"})
        write_kubeconfig(connected.file, server, token="second")
        return web.json_response({"message": "expired"}, status=401)

    server = Server(takes_only_the_second)

    async with connected(server) as api:
        found = await api.get(f"{PODS}/a")

    assert found == {"kind": "Pod"}
    assert len(server.asked) == 2


async def test_an_answer_that_is_no_object_names_the_doubt(connected):
    server = Server(answers(200, ["a", "list"]))

    async with connected(server) as api:
        with pytest.raises(PermanentError):
            await api.get(f"{PODS}/a")


async def test_without_credentials_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(
        "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none")
    )

    with pytest.raises(PermanentError, match="KUBECONFIG"):
        await KubernetesApi.connect()


def tells(*lines: str, then: Answer | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(f"{line}\n".encode())
        return response if then is None else await then(request)

    return answer


async def read(api: KubernetesApi, *, lasts: float = 5.0) -> list[str]:
    query = {"watch": "true"}
    async with api.stream(PODS, query, accept="application/json", lasts=lasts) as lines:
        return [line.decode().strip() async for line in lines]


async def test_an_answer_that_goes_on_is_read_line_by_line(connected):
    server = Server(tells("one", "two"))

    async with connected(server) as api:
        found = await read(api)

    assert found == ["one", "two"]
    assert server.asked[0][1] == f"{PODS}?watch=true"


@pytest.mark.parametrize("end", [hangs, hangs_up])
async def test_an_answer_that_breaks_off_or_outlasts_its_time_is_told(connected, end):
    async with connected(Server(tells("one", then=end))) as api:
        with pytest.raises(TemporaryError):
            await read(api, lasts=0.3)


async def test_a_watch_that_is_forbidden_is_refused(connected):
    async with connected(Server(answers(403))) as api:
        with pytest.raises(RefusedByKubernetesError, match="because"):
            await read(api)


async def test_where_a_watch_may_begin_is_asked_for_one_object(connected):
    server = Server(answers(200, {"items": [], "metadata": {"resourceVersion": "42"}}))

    async with connected(server) as api:
        version = await api.newest(PODS, "a=b")

    assert version == "42"
    assert server.asked[0][1] == f"{PODS}?limit=1&labelSelector=a%3Db"


class Allowance:
    """A guard that allows so many changes, then no more."""

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    async def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LeaseLostError("lost")


CHANGING = [
    pytest.param(lambda api: api.create(PODS, {}), id="create"),
    pytest.param(lambda api: api.apply(f"{PODS}/a", {}), id="apply"),
    pytest.param(lambda api: api.patch(f"{PODS}/a", {}), id="patch"),
    pytest.param(lambda api: api.replace(f"{PODS}/a", {}), id="replace"),
    pytest.param(lambda api: api.delete(f"{PODS}/a"), id="delete"),
]


@pytest.mark.parametrize("change", CHANGING)
async def test_nothing_is_changed_that_the_guard_forbids(connected, change):
    server = Server(answers(200, {"kind": "Pod", "items": [], "metadata": {}}))

    async with connected(server) as api:
        guarded = api.guarded(Allowance(0))
        await guarded.get(f"{PODS}/a")
        await guarded.list(PODS)
        with pytest.raises(LeaseLostError):
            await change(guarded)
        await change(api)  # who is not guarded is not asked

    assert [method for method, *_ in server.asked[:2]] == ["GET", "GET"]
    assert len(server.asked) == 3


async def test_the_guard_is_asked_before_each_further_attempt(connected):
    server = Server(answers(503))

    async with connected(server) as api:
        with pytest.raises(LeaseLostError):
            await api.guarded(Allowance(2)).delete(f"{PODS}/a")

    assert len(server.asked) == 2 < ATTEMPTS


async def test_the_guard_is_asked_again_where_credentials_are_read_again(connected):
    server = Server(answers(401))

    async with connected(server) as api:
        with pytest.raises(LeaseLostError):
            await api.guarded(Allowance(1)).delete(f"{PODS}/a")

    assert len(server.asked) == 1
