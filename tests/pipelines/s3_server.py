"""A server on the loopback that speaks as much of S3 as pyarrow asks: buckets, objects, uploads.

An object is replaced when its upload is complete, and never before. Who does not sign with the
known key is refused. (No server of a package is used: botocore, which moto needs, and Kubernetes'
client need different versions of dateutil.)
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY, SECRET, BUCKET = "known", "secret", "history"


@dataclass(slots=True)
class Stored:
    """What the server holds, and what it was asked."""

    objects: dict[str, bytes] = field(default_factory=dict)
    """By key, all of one bucket."""
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    """Parts by number, of uploads that are not complete."""
    is_down: bool = False
    """Whether it refuses whatever would change an object."""


@contextmanager
def running_s3() -> Iterator[tuple[str, Stored]]:
    """Yield the address `HOST:PORT` of a server, and what it holds."""
    stored = Stored()
    handler = type("Handler", (_Handler,), {"stored": stored})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", stored
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stored: Stored

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def handle_one(self) -> None:
        """Answer a request of any method."""
        parts = urlsplit(self.path)
        _, bucket, *rest = unquote(parts.path).split("/", 2)
        key, query = (rest or [""])[0], parse_qs(parts.query, keep_blank_values=True)
        body = self._body()
        if f"Credential={KEY}/" not in self.headers.get("Authorization", ""):
            self._refuse(403, "AccessDenied", "Access Denied")
        elif bucket != BUCKET:
            self._refuse(404, "NoSuchBucket", "The specified bucket does not exist")
        elif self.stored.is_down and self.command not in ("GET", "HEAD"):
            self._refuse(403, "AccessDenied", "Access Denied")
        elif self.command in ("GET", "HEAD"):
            self._get(key, query)
        elif self.command == "DELETE":
            self.stored.objects.pop(key, None)
            self._answer(b"", status=204)
        elif "delete" in query:
            for name in re.findall("<Key>(.*?)</Key>", body.decode()):
                self.stored.objects.pop(name, None)
            self._answer(b"<DeleteResult/>")
        elif "uploads" in query:
            upload = str(len(self.stored.uploads))
            self.stored.uploads[upload] = {}
            self._answer(
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>"
                "</InitiateMultipartUploadResult>".encode()
            )
        elif "partNumber" in query:
            self.stored.uploads[query["uploadId"][0]][int(query["partNumber"][0])] = body
            self._answer(b"", etag='"part"')
        elif "uploadId" in query:
            parts_of = self.stored.uploads[query["uploadId"][0]]
            self.stored.objects[key] = b"".join(parts_of[number] for number in sorted(parts_of))
            self._answer(b"<CompleteMultipartUploadResult/>")
        else:
            self.stored.objects[key] = body
            self._answer(b"", etag='"whole"')

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_one  # noqa: N815

    def _get(self, key: str, query: dict[str, list[str]]) -> None:
        content = self.stored.objects.get(key)
        if not key and "list-type" in query:
            self._list(query.get("prefix", [""])[0], query.get("delimiter", [""])[0])
        elif not key:
            self._answer(b"")
        elif content is None:
            self._refuse(404, "NoSuchKey", "The specified key does not exist.")
        else:
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            if asked:
                content = content[int(asked[1]) : int(asked[2]) + 1]
            self._answer(content, status=206 if asked else 200)

    def _list(self, prefix: str, delimiter: str) -> None:
        found, folders = [], set()
        for key, content in sorted(self.stored.objects.items()):
            inside, there, _ = key.removeprefix(prefix).partition(delimiter or "\0")
            if key.startswith(prefix) and there:
                folders.add(f"{prefix}{inside}{delimiter}")
            elif key.startswith(prefix):
                found.append(
                    f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size>"
                    "<LastModified>2026-03-04T00:00:00.000Z</LastModified></Contents>"
                )
        common = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
            for each in sorted(folders)
        )
        count = len(found) + len(folders)
        self._answer(
            f"<ListBucketResult><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>"
            f"{''.join(found)}{common}</ListBucketResult>".encode()
        )

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b"".join(_chunks(self.rfile))
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        is_chunked = "aws-chunked" in self.headers.get("Content-Encoding", "")
        return b"".join(_chunks(io.BytesIO(body))) if is_chunked else body

    def _refuse(self, status: int, code: str, message: str) -> None:
        content = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self._answer(content.encode(), status=status)

    def _answer(self, content: bytes, *, status: int = 200, etag: str = '"any"') -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", etag)
        self.send_header("Last-Modified", formatdate(1_772_582_400, usegmt=True))
        self.send_header("x-amz-bucket-region", "us-east-1")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _chunks(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield the chunks of a stream, as HTTP has them and, with a signature each, S3."""
    while size := int(stream.readline().partition(b";")[0], 16):
        yield stream.read(size)
        stream.readline()
