"""A page that is small on the wire and huge in memory, served in the place of a job's own."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from weir_operator.metrics import names

UNPACKED = 150 * 2**20
"""Bytes that the page unpacks to."""
_PADDING = "x" * 600
"""Text of one label: with it so many lines pack to about 1 MB."""


@cache
def metrics_page(app: str) -> bytes:
    """Return a page of Flink's reporter, packed: every line is another series that Weir reads."""
    label = f'weir_app="{names.mangle(app)}",weir_operator="match",padding="{_PADDING}"'
    line = f'{names.BUSY_MS}{{{label},subtask_index="%d"}} 1.0\n'
    lines = UNPACKED // len(line)
    return gzip.compress("".join(line % number for number in range(lines)).encode(), 6)


@cache
def rest_answer() -> bytes:
    """Return an answer of Flink's REST interface, packed: a list of jobs that does not end."""
    job = f'{{"jid": "%032x", "name": "{_PADDING}", "state": "RUNNING", "start-time": 0}}'
    count = UNPACKED // len(job % 0)
    text = ", ".join(job % number for number in range(count))
    return gzip.compress(f'{{"jobs": [{text}]}}'.encode(), 6)


@contextmanager
def serve(body: bytes, content_type: str) -> Iterator[int]:
    """Answer every GET with `body`, which is packed by gzip; yields the port, on all addresses."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of a reader that has had enough: it should."""

    with Server(("", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
