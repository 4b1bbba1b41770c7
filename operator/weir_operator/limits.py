"""How much is read of what comes from outside, and the readers that stop there.

The owner of a job decides what its processes answer, and the controller has the jobs of many
owners. So everything has a limit: bytes after decompression (150 MB of zeros arrive as 150 KB),
values of a JSON text before it is parsed (8 MiB of `[],` take 200 MB), characters of a text before
it is searched. Time is limited where something is asked, see the callers.

Nothing else in the operator reads from outside; `tests/repository/test_readers.py` has the list of
exceptions. Limits of a manifest are those of the CRD, and of `streamapp.rules`.

What holds the interpreter's lock stops every thread. The answers of a job and of the API server
are small enough to be parsed in some 50 ms: measured with 100,000 keys in one object, which takes
longest. Those of Prometheus are parsed in pieces, and pages of metrics in Python, which gives the
lock away. Texts are searched in linear time. A tuning result crafted to be
slow still takes some 300 ms.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from pydantic_core import from_json

from weir_operator.errors import TemporaryError

Json: TypeAlias = Any
"""What a JSON text holds; whoever reads it gives it a type."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """How much of one kind of answer is read."""

    bytes: int
    """After decompression."""
    values: int
    """Of JSON: objects, lists and what is in them. Signs in texts are counted, too."""


FLINK_ANSWER = Limit(bytes=2**20, values=100_000)
"""Of Flink's REST interface. A list of 1,000 jars or checkpoints has a fifth of that."""
FLINK_SUBTASKS = Limit(bytes=2 * 2**20, values=100_000)
"""About a whole job, its subtasks or its TaskManagers. A thousand subtasks of one vertex take one
MiB and have 75,000 values; of a whole job, Flink lists the vertices alone."""
PROMETHEUS_ANSWER = Limit(bytes=16 * 2**20, values=2_000_000)
"""Some 600,000 samples of three values each, which take 100 MB while they are read."""
PROMETHEUS_ERROR = Limit(bytes=2**20, values=1000)
"""Why it refuses a query: an object of three texts, one of which may repeat the query."""
KUBERNETES_ANSWER = Limit(bytes=2 * 2**20, values=100_000)
"""Of the API server. An object has 1.5 MiB at most, in etcd; of a list, fewer objects are asked for
at once where they are large. A StreamApp of four operators and its status have 350 values."""
KUBERNETES_LIST = 32 * 2**20
"""Characters of all objects of a list that are kept at once: whoever may create an object may label
a thousand as Weir's. A namespace of 500 StreamApps has that much of its ConfigMaps."""
TUNING_RESULT = Limit(bytes=8 * 2**20, values=400_000)
"""Of a tuning. One of 100 operators and 1,000 evaluations has half of that."""

MAX_PAGE = 4 * 2**20
"""Bytes of one page of metrics. A TaskManager with 50 operators in each of 8 slots has 2 MiB."""
MAX_LINE = 8192
"""Bytes of a line of such a page."""
MAX_LABELS = 64
"""Labels of such a line. Flink's have a dozen."""
MAX_SERIES = 10_000
"""Series of a StreamApp that a source gives; with more it gives an error. A replica has 15 to 80,
and each takes up to 10 KiB of memory."""
LABELS_PER_SERIES = 1024
"""Characters of the labels of one series, on average over those of a StreamApp. Flink's have some
400, most of them ids."""
KEY_LINE = 4096
"""Characters of what the agent counted of the keys of one output."""
MAX_KEY_GROUPS = 32768
"""Of an operator; Flink has no more."""
MAX_JOB_KEY_GROUPS = 2**20
"""Key groups of all operators of a job whose counts are read: 30 operators with the most that Flink
has, or 1,400 with 720. Each takes up to 100 bytes."""
KEY_TASKS = 16
"""Tasks whose counts of keys are asked for at once, with up to eight outputs of 768 counts each."""
MAX_KEY_TASKS = 500
"""Tasks of a vertex whose counts of keys are read. The others send to the same keys."""
MAX_VERTICES = 1000
"""Vertices of a job. The largest known have some hundreds, and each may become an operator."""

TUNING_LOG = 8 * 2**20
"""Bytes of a log in which a tuning's result is sought: it is printed compressed, in one go."""
ERROR_TEXT = 256 * 1024
"""Characters of an error or a log that are searched for the cause. The 1,024 frames of a full stack
have less."""
SENTENCE = 300
"""Characters of a text of somebody else in a sentence: conditions and events have narrow columns.
"""
LOGGED = 200
"""Characters of an answer that the log quotes."""

INLINE = 256 * 1024
"""Bytes of a body that is worked on in the event loop, which takes a millisecond or so."""
_GZIP = 31  # window bits of zlib for a gzip member


class TooLargeError(TemporaryError):
    """An answer is larger than what is read of it."""


def open_session(*, timeout: float) -> aiohttp.ClientSession:
    """Return a session whose answers are for `read_raw`; it keeps no cookies.

    Args:
        timeout: Seconds for one request, where it names no others.
    """
    return aiohttp.ClientSession(
        auto_decompress=False,
        headers={"Accept-Encoding": "gzip"},
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=timeout),
    )


@dataclass(frozen=True, slots=True)
class Raw:
    """A body as it came."""

    content: bytes
    encoding: str
    """The header `Content-Encoding`; empty where there was none."""


async def read_raw(
    response: aiohttp.ClientResponse, most: int, *, hold: Callable[[int], None] = lambda _: None
) -> Raw:
    """Return the body of an answer, still compressed.

    Args:
        response: The answer to a session of `open_session`, unread.
        most: Bytes that it may have.
        hold: Told of every few bytes before they are kept; may raise.

    Raises:
        TooLargeError: There are more.
    """
    content = await read_content(response, most, hold=hold)
    return Raw(content, response.headers.get("Content-Encoding", "").lower())


async def read_content(
    response: aiohttp.ClientResponse, most: int, *, hold: Callable[[int], None] = lambda _: None
) -> bytes:
    """Return the body of an answer as its session gives it; see `read_raw`.

    Raises:
        TooLargeError: It has more than `most` bytes. The connection is closed.
    """
    content = bytearray()
    async for chunk in response.content.iter_any():
        hold(len(chunk))
        content += chunk
        if len(content) > most:
            response.close()
            raise _too_large(most)
    return bytes(content)


async def read_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of an answer that goes on.

    Raises:
        TooLargeError: One is longer than an object of the API server.
    """
    try:
        async for line in response.content:
            if len(line) > KUBERNETES_ANSWER.bytes:
                raise _too_large(KUBERNETES_ANSWER.bytes)
            yield line
    except LineTooLong as error:
        raise _too_large(KUBERNETES_ANSWER.bytes) from error


def join_pieces(pieces: Iterable[bytes], most: int) -> bytes:
    """Return a body that comes in pieces.

    Raises:
        TooLargeError: It has more than `most` bytes; the rest is not asked for.
    """
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > most:
            raise _too_large(most)
    return bytes(content)


def read_file(path: Path, most: int) -> bytes:
    """Return what another program has written to a file.

    Raises:
        TooLargeError: It has more than `most` bytes.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise _too_large(most)
    return content


def read_end(path: Path) -> str:
    """Return the end of a log that another program has written, as far as it is searched.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - ERROR_TEXT))
        return file.read(ERROR_TEXT).decode(errors="replace")


def decompress(raw: Raw, most: int) -> bytes:
    """Return a body as it was before it was compressed.

    Raises:
        TooLargeError: It has more.
        ValueError: It is not compressed as its header says, or that is not gzip.
    """
    if raw.encoding in ("", "identity"):
        if len(raw.content) > most:
            raise _too_large(most)
        return raw.content
    if raw.encoding not in ("gzip", "x-gzip"):
        raise ValueError("expected gzip or nothing as Content-Encoding")
    return inflate(raw.content, most, wbits=_GZIP)


def inflate(packed: bytes, most: int, *, wbits: int = zlib.MAX_WBITS) -> bytes:
    """Return what was compressed, by default as zlib does.

    Raises:
        TooLargeError: It has more than `most` bytes.
        ValueError: It is something else, not all of it, or more than one.
    """
    member = zlib.decompressobj(wbits)
    try:
        body = member.decompress(packed, most + 1)
    except zlib.error as error:
        raise ValueError("expected gzip, got something else") from error
    if len(body) > most:
        raise _too_large(most)
    if not member.eof or member.unused_data:
        raise ValueError("expected gzip of one member, got a part or more")
    return body


def read_json(content: bytes | str, limit: Limit) -> Json:
    """Return what a JSON text holds.

    Raises:
        TooLargeError: It has more bytes or values than the limit.
        ValueError: It is none.
        RecursionError: It has too many levels.
    """
    check_size(content, limit)
    try:
        # Faster than the standard library's, and equal strings are one.
        return from_json(content)
    except ValueError:
        return json.loads(content)  # what is nested too deeply for the other


def check_size(content: bytes | str, limit: Limit) -> None:
    """Return if a JSON text may be parsed.

    Raises:
        TooLargeError: It has more bytes or values than the limit.
    """
    if len(content) > limit.bytes:
        raise _too_large(limit.bytes)
    # Each value but the first of its list or object has a comma before it.
    if isinstance(content, str):
        values = sum(map(content.count, ("[", "{", ",")))
    else:
        values = sum(map(content.count, (b"[", b"{", b",")))
    if values > limit.values:
        raise TooLargeError(f"it has more than {limit.values:,} values")


def cut_end(text: str) -> str:
    """Return the end of an error or a log, which is what is searched: the cause comes last."""
    return text[-ERROR_TEXT:]


def cut_sentence(text: str) -> str:
    """Return a text as a sentence may quote it."""
    return text if len(text) <= SENTENCE else f"{text[: SENTENCE - 3]}..."


def _too_large(maximum: int) -> TooLargeError:
    return TooLargeError(f"it has more than {maximum / 2**20:g} MiB")
