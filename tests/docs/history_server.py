"""A server that answers as Prometheus does, of a source that has always given out records."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

APP = "streams/trips"
EVERY = 30
"""Seconds between two scrapes."""
TASK = "flink_taskmanager_job_task_"
SLOPES = {
    "numRecordsIn": 0.0,
    "numRecordsOut": 20.0,
    "accumulateBusyTimeMs": 400.0,
    "accumulateIdleTimeMs": 600.0,
    "accumulateBackPressuredTimeMs": 0.0,
}
"""What each counter rises by in a second."""

JOB = "trips"
LABELS = {"__name__": [TASK + name for name in SLOPES], "job_name": [JOB]}
"""What a server says of the values of a label."""


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        if parts.path.endswith("/values"):
            self._answer(LABELS.get(parts.path.split("/")[-2], []))
            return
        query, end = asked["query"][0], float(asked["time"][0])
        [milliseconds] = re.findall(r"\[(\d+)ms\]", query)
        first = int((end - int(milliseconds) / 1000) // EVERY + 1) * EVERY
        times = range(first, int(end) + 1, EVERY)
        result = [
            {
                "metric": {
                    "__name__": f"{TASK}{name}",
                    "weir_app": APP,
                    "weir_operator": "source",
                    "weir_pool": "small",
                    "task_name": "Source",
                    "job_id": "first",
                    "job_name": JOB,
                },
                # Counted from a day that is long past: a double holds that to the last digit.
                "values": [[time, str(slope * (time - 1_700_000_000))] for time in times],
            }
            for name, slope in SLOPES.items()
            if f'weir_app="{APP}"' in query or f'job_name="{JOB}"' in query
        ]
        self._answer({"resultType": "matrix", "result": result})

    def _answer(self, data: object) -> None:
        answer = {"status": "success", "data": data}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the library's name)
        """Keep quiet."""


@contextmanager
def serving_history() -> Iterator[str]:
    """Serve while the block runs; yield the server's address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()
