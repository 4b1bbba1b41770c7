from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qs, urlsplit

import pytest

from weir_pipelines.errors import SourceError
from weir_pipelines.metrics import METRICS, RECORDS_IN
from weir_pipelines.prometheus import (
    PasswordFromFolder,
    PrometheusHistory,
    PrometheusSettings,
    TokenFromFile,
)

NAME = METRICS[RECORDS_IN]


class FakeServer(ThreadingHTTPServer):
    """A counter that is scraped every 5 s; refuses pieces that are longer than `most` seconds."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, float, float]] = []
        self.parameters: dict[str, list[str]] = {}
        self.listed: list[dict[str, list[str]]] = []
        self.headers: dict[str, str] = {}
        self.most = 1e9
        self.failures = 0
        self.answers: list[tuple[int, dict[str, object]]] = []
        self.is_left_open = False
        self.error = "query processing would load too many samples into memory"
        self.refusal = 422
        self.is_partial = False
        self.is_silent = False
        self.is_closing = threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = cast(FakeServer, self.server)
        server.headers = dict(self.headers)
        if server.failures:
            server.failures -= 1
            self.connection.close()
            return
        if server.answers:
            self.answer(*server.answers.pop(0))
            return
        asked = urlsplit(self.path)
        parameters = parse_qs(asked.query)
        if asked.path.endswith("/label/weir_app/values"):
            server.listed.append(parameters)
            self.answer(200, {"status": "success", "data": ["shop/trips", "shop/orders"]})
            return
        server.parameters = parameters
        query, end = parameters["query"][0], float(parameters["time"][0])
        [milliseconds] = re.findall(r"\[(\d+)ms\]", query)
        length = int(milliseconds) / 1000
        server.asked.append((query, end - length, end))
        if length > server.most and server.is_partial:
            partial = {"resultType": "matrix", "result": []}
            self.answer(200, {"status": "success", "warnings": [server.error], "data": partial})
            return
        if length > server.most and server.is_silent:
            server.is_closing.wait(5)
            return
        if length > server.most:
            self.answer(server.refusal, {"status": "error", "error": server.error})
            return
        # To Prometheus 2 both ends belong to the range, to 3 only the last.
        low = end - length
        values = [
            [t, str(t)]
            for t in range(0, 2000, 5)
            if (low < t or (low == t and not server.is_left_open)) and t <= end
        ]
        metric = {"__name__": NAME, "weir_app": "shop/trips", "weir_operator": "match"}
        result = [{"metric": metric, "values": values}]
        self.answer(200, {"status": "success", "data": {"resultType": "matrix", "result": result}})

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):  # noqa: A002  (the library's name)
        """Keep quiet."""


@pytest.fixture
def server():
    server = FakeServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.is_closing.set()
    server.shutdown()
    thread.join()
    server.server_close()


def times(history, start=100.0, end=700.0):
    return [t for each in history.samples("shop/trips", start, end) for t in each.times_ms]


def a_history(server, pauses=None, **settings):
    sleep = (lambda seconds: None) if pauses is None else pauses.append
    return PrometheusHistory(PrometheusSettings(url=server.url, **settings), sleep=sleep)


def test_the_samples_of_a_piece_come_as_they_were_scraped_its_end_left_out(server):
    assert times(a_history(server)) == [1000 * t for t in range(100, 700, 5)]


def test_a_server_that_leaves_a_ranges_begin_out_gives_the_same_samples(server):
    server.is_left_open = True

    assert times(a_history(server)) == [1000 * t for t in range(100, 700, 5)]


def test_only_the_apps_series_of_the_history_are_asked_for(server):
    times(a_history(server, matchers={"cluster": 'n"1'}))

    [(query, _, _)] = server.asked
    assert 'weir_app="shop/trips"' in query
    assert 'cluster="n\\"1"' in query
    assert NAME in query


def test_only_applications_of_these_days_with_these_labels_are_listed(server):
    found = a_history(server, matchers={"cluster": "north"}).apps(100.0, 700.0)

    assert found == ("shop/orders", "shop/trips")
    [asked] = server.listed
    assert (asked["start"], asked["end"]) == (["100.0"], ["700.0"])
    [selector] = asked["match[]"]
    assert 'cluster="north"' in selector
    assert NAME in selector


def test_a_server_that_lists_no_applications_is_named_with_its_reason(server):
    server.answers = [(422, {"status": "error", "error": "no such tenant"})]

    with pytest.raises(SourceError, match=f"{server.url} refused: .*no such tenant"):
        a_history(server).apps(100.0, 700.0)


# As the servers' sources have them, with their HTTP status.
LIMITS = {
    "Prometheus, samples": (
        422, "query processing would load too many samples into memory in query execution"
    ),
    "Prometheus, points": (
        400,
        "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query "
        "resolution (?step=XX)",
    ),
    "Prometheus, time": (503, "query timed out in query execution"),
    "Thanos, series": (422, "exceeded series limit: limit 10 violated (got 20)"),
    "Thanos, samples": (422, "exceeded samples limit: limit 1000 violated (got 1200)"),
    "a message between processes": (
        500,
        "rpc error: code = ResourceExhausted desc = grpc: received message larger than max "
        "(5242880 vs. 4194304)",
    ),
    "Mimir, chunks": (
        422,
        "the query exceeded the maximum number of chunks (limit: 2000000 chunks) "
        "(err-mimir-max-chunks-per-query). Consider reducing the time range and/or number of "
        "series selected by the query.",
    ),
    "Mimir, length": (
        422,
        "the query time range exceeds the limit (query length: 24h0m0s, limit: 12h0m0s) "
        "(err-mimir-max-query-length). To adjust the related per-tenant limit, configure "
        "-querier.max-partial-query-length, or contact your service administrator.",
    ),
    "a proxy": (504, "upstream request timeout"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "error"), LIMITS.values(), ids=LIMITS)
def test_a_piece_that_is_too_large_is_halved_until_the_server_grants_it(server, status, error):
    server.most, server.refusal, server.error = 160.0, status, error

    found = times(a_history(server))

    assert granted_by(server) == [(100, 250), (250, 400), (400, 550), (550, 700)]
    assert found == [1000 * t for t in range(100, 700, 5)]


def test_a_piece_of_which_a_limit_leaves_out_a_part_is_halved_too(server):
    server.most, server.is_partial = 160.0, True
    server.error = "store gateway: exceeded chunks limit: limit 10 violated (got 12)"

    found = times(a_history(server))

    assert len(granted_by(server)) == 4
    assert found == [1000 * t for t in range(100, 700, 5)]


def test_a_piece_that_is_not_answered_in_time_is_halved_without_asking_again(server):
    server.most, server.is_silent = 310.0, True

    found = times(a_history(server, timeout=0.5))

    assert len(server.asked) == 3
    assert found == [1000 * t for t in range(100, 700, 5)]


def test_the_smallest_piece_that_is_not_answered_in_time_is_asked_for_again(server):
    server.answers = [(503, {"status": "error", "error": "query timed out in query execution"})]

    found = times(a_history(server, attempts=2), 100.0, 120.0)

    assert found == [1000 * t for t in range(100, 120, 5)]


def granted_by(server):
    pieces = [(round(low), high) for _, low, high in server.asked]
    return [(low, high) for low, high in pieces if high - low <= server.most]


def test_thanos_is_asked_for_samples_alone_and_for_all_of_them(server):
    times(a_history(server))

    assert server.parameters["max_source_resolution"] == ["0s"]
    assert server.parameters["partial_response"] == ["false"]


def test_a_server_that_refuses_for_another_reason_is_not_asked_for_less(server):
    server.most, server.error = 0.0, "no such tenant"

    with pytest.raises(SourceError, match="no such tenant"):
        times(a_history(server))

    assert len(server.asked) == 1


def test_a_server_that_fails_is_asked_again_with_growing_pauses(server):
    server.failures = 2
    pauses: list[float] = []

    found = times(a_history(server, pauses, attempts=3, rest=0.0))

    assert len(found) == 120
    assert 0 < pauses[0] < pauses[1]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, "the request has been rejected because the tenant exceeded the request rate limit"),
        (502, "later"),
        (503, "later"),
        (422, "expanding series: proxy Series(): No StoreAPIs available"),
    ],
)
def test_a_server_that_is_busy_is_asked_again(server, status, error):
    server.answers = [(status, {"status": "error", "error": error})]

    found = times(a_history(server, attempts=2))

    assert len(found) == 120


@pytest.mark.parametrize(
    ("besides", "said"),
    [
        ({"warnings": ["store 2 is gone"]}, "store 2 is gone"),
        ({"isPartial": True}, "a store behind the server did not answer"),
    ],
)
def test_an_answer_in_which_something_is_missing_is_not_taken(server, besides, said):
    partial = {"status": "success", "data": {"result": []}} | besides
    server.answers = [(200, partial)]

    found = times(a_history(server, attempts=2))
    server.answers = [(200, partial)] * 2

    assert len(found) == 120
    with pytest.raises(SourceError, match=f"did not answer 2 times: .*{said}"):
        times(a_history(server, attempts=2))


def test_servers_are_told_apart_by_address_labels_and_tenant(server):
    one = a_history(server)

    assert one.key == a_history(server).key
    assert one.key != a_history(server, matchers={"cluster": "eu"}).key
    assert one.key != a_history(server, headers={"X-Scope-OrgID": "other"}).key


def test_a_server_that_never_answers_is_named(server):
    server.failures = 3

    with pytest.raises(SourceError, match=f"{server.url} did not answer 3 times"):
        times(a_history(server, attempts=3))


def test_the_server_rests_as_long_as_an_answer_took_it(server):
    pauses: list[float] = []

    times(a_history(server, pauses, rest=1000.0))

    [pause] = pauses
    assert pause > 0


def test_headers_are_sent_with_every_question(server):
    times(a_history(server, headers={"X-Scope-OrgID": "team-a"}))

    assert server.headers["X-Scope-OrgID"] == "team-a"


def test_a_token_is_read_from_its_file_each_time(server, tmp_path):
    file = tmp_path / "token"
    history = a_history(server, auth=TokenFromFile(file))
    seen = []

    for token in ("first", "renewed"):
        file.write_text(f"{token}\n")
        times(history)
        seen.append(server.headers["Authorization"])

    assert seen == ["Bearer first", "Bearer renewed"]


def test_user_and_password_are_those_of_a_secret_that_is_mounted(server, tmp_path):
    (tmp_path / "username").write_text("weir\n")
    (tmp_path / "password").write_text("pässword\n")

    times(a_history(server, auth=PasswordFromFolder(tmp_path)))

    assert base64.b64decode(server.headers["Authorization"].removeprefix("Basic ")).decode() == (
        "weir:pässword"
    )


def test_a_secret_that_is_not_there_is_named(server, tmp_path):
    with pytest.raises(SourceError, match=str(tmp_path / "token")):
        times(a_history(server, auth=TokenFromFile(tmp_path / "token")))


def test_no_message_has_the_password_of_an_address(server):
    server.most, server.error = 0.0, "no such tenant"
    url = server.url.replace("http://", "http://weir:secret@")
    history = PrometheusHistory(PrometheusSettings(url=url), sleep=lambda seconds: None)

    with pytest.raises(SourceError) as caught:
        times(history)

    assert str(caught.value).startswith(f"{server.url} refused")
    assert "secret" not in str(caught.value)
