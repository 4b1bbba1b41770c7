"""An answer as lines among other lines: how it leaves a pod, by its log.

A log is the one way out of a pod that needs no right, no volume and no open port. But others write
to it too, its lines have a limited length, and what was rotated away is gone. So an answer is
packed and cut into short numbered lines with one digest: it is found whole or not at all.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import zlib
from typing import TextIO

from weir_operator.tuning.work import TuningLostError

WIDTH = 4096
"""Characters of a frame; runtimes cut lines at 16 KiB."""
LARGEST = 64 * 2**20
"""Bytes that an answer may have: what is printed must not fill the controller's memory."""

_FRAME = re.compile(r"^weir-answer ([0-9a-f]{64}) (\d+)/(\d+) ([A-Za-z0-9+/=]+)$", re.MULTILINE)


def write_frames(text: str, out: TextIO) -> None:
    """Print a text in frames."""
    packed = base64.b64encode(zlib.compress(text.encode())).decode("ascii")
    digest = hashlib.sha256(packed.encode()).hexdigest()
    parts = [packed[begin : begin + WIDTH] for begin in range(0, len(packed), WIDTH)]
    for number, part in enumerate(parts, start=1):
        print(f"weir-answer {digest} {number}/{len(parts)} {part}", file=out)
    out.flush()


def read_frames(log: str) -> str:
    """Return the text whose frames are in a log.

    Raises:
        TuningLostError: It is not there, or not whole.
    """
    frames = _FRAME.findall(log)
    if not frames:
        raise TuningLostError("Expected an answer in the log of the tuning, found none")
    digest = frames[-1][0]
    parts = {int(number): part for found, number, _, part in frames if found == digest}
    packed = "".join(parts[number] for number in sorted(parts))
    if hashlib.sha256(packed.encode()).hexdigest() != digest:
        raise TuningLostError(
            f"Expected {frames[-1][2]} lines of an answer in the log of the tuning, got "
            f"{len(parts)} that do not make it whole"
        )
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(base64.b64decode(packed, validate=True), LARGEST)
        if unpacking.unconsumed_tail:
            raise TuningLostError(f"Expected an answer of at most {LARGEST} bytes, got more")
        return text.decode()
    except (zlib.error, binascii.Error, UnicodeDecodeError) as error:
        raise TuningLostError(f"Expected a packed answer in the log, got: {error}") from error
