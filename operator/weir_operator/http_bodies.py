"""Reads bodies of HTTP answers, up to a limit.

The owner of a job decides what its processes answer, and the controller has the jobs of many
owners. So bytes are also counted after decompression, which stops at the limit: 150 MB of zeros
arrive as 150 KB. A large body is decompressed and worked on in a thread, and only one at a time in
the whole process, see `work_on`: what is made of it takes several times its memory, and whoever has
ten StreamApps would have ten times as much.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import aiohttp

from weir_operator.errors import TemporaryError

T = TypeVar("T")

INLINE = 256 * 1024
"""Bytes of a body that is worked on in the event loop, which takes a millisecond or so."""
_LARGE = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weir-large-answer")
_GZIP = 31  # window bits of zlib for a gzip member


class TooLargeError(TemporaryError):
    """An answer has more bytes than are read."""


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
    content = bytearray()
    async for chunk in response.content.iter_any():
        hold(len(chunk))
        content += chunk
        if len(content) > most:
            raise _too_large(most)
    return Raw(bytes(content), response.headers.get("Content-Encoding", "").lower())


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
    member = zlib.decompressobj(_GZIP)
    try:
        body = member.decompress(raw.content, most + 1)
    except zlib.error as error:
        raise ValueError("expected gzip, got something else") from error
    if len(body) > most:
        raise _too_large(most)
    if not member.eof or member.unused_data:
        raise ValueError("expected gzip of one member, got a part or more")
    return body


async def work_on(raw: Raw, most: int, work: Callable[[bytes], T]) -> T:
    """Decompress a body and return what `work` makes of it, large ones one at a time in a thread.

    Args:
        raw: The body.
        most: Bytes that it may have.
        work: Is done once.

    Raises:
        TooLargeError: It has more.
        ValueError: It is compressed in a way that was not asked for, or damaged.
    """
    try:
        body = decompress(raw, INLINE)
    except TooLargeError:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_LARGE, lambda: work(decompress(raw, most)))
    return work(body)


def _too_large(maximum: int) -> TooLargeError:
    return TooLargeError(f"it has more than {maximum / 2**20:g} MiB")
