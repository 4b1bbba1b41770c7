"""The request and the answer of a tuning, between the controller and a process or a Kubernetes Job.

The request has everything, including the trace; the worker decides where to store it. An incomplete
answer, or one of another version, is rejected here; what it says, by `requests.check_answer`.

A pod's log needs no permission, no volume and no open port. But others write to it too, its lines
have a limited length, and it is rotated. So an answer is compressed and cut into short numbered
lines with one digest: it is read completely or not at all.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
import zlib
from typing import Protocol, TextIO

from pydantic import ValidationError

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.limits import TUNING_RESULT, TooLargeError, check_size, inflate
from weir_simulator.tuning.order import TuningRequest, TuningResult

REFUSED = 3
"""Exit status of a worker that cannot do its work; Python itself ends with 1 where it fails."""
WIDTH = 4096
"""Characters of a frame; runtimes cut lines at 16 KiB."""

_FRAME = "weir-answer "
_FRAME_LINE = re.compile(
    _FRAME + r"(?P<digest>\S+) (?P<number>\d{1,9})/(?P<count>\d{1,9}) (?P<part>\S*)"
)
"""A line of an answer that is printed; one that was cut, or is somebody else's, is left out."""


class TuningLostError(TemporaryError):
    """The work came to no answer: its process died, was too late, or wrote something else."""


class TuningRefusedError(PermanentError):
    """The work cannot be done as it is asked for; the sentence says why."""


class Tuner(Protocol):
    """Makes one tuning at a time for one StreamApp, and never in the caller's thread.

    A call that is cancelled ends the work. Nothing of it can be wrong after a crash: whoever calls
    again with an equal request under the same name goes on with what was left, or starts over.
    """

    @property
    def deadline(self) -> float:
        """Seconds after which a tuning without an answer is ended, its wait for a node included."""
        ...

    async def tune(self, request: TuningRequest, *, name: str) -> TuningResult:
        """Return the result of the request.

        Args:
            request: What to tune, its rates included.
            name: Of the tuning, the same when it is repeated and no other's of the StreamApp:
                lower-case letters, digits and dashes.

        Raises:
            TuningLostError: It came to no answer; doing it again may help.
            TuningRefusedError: It cannot be done.
            TemporaryError: It could not be begun or followed.
        """
        ...


def pack_request(request: TuningRequest) -> bytes:
    """Return the request as a small file."""
    # Without the time of its making: equal requests, equal bytes.
    return gzip.compress(request.model_dump_json(by_alias=True).encode(), mtime=0)


def unpack_request(packed: bytes) -> TuningRequest:
    """Return the request of a file.

    Raises:
        TuningRefusedError: It holds none.
    """
    try:
        return TuningRequest.model_validate_json(gzip.decompress(packed))
    except (OSError, EOFError, ValidationError) as error:
        raise TuningRefusedError(
            f"Expected the work of a tuning, got something else ({_first(error)}); "
            "use a tuner of the same version as the controller"
        ) from error


def read_answer(text: str | bytes) -> TuningResult:
    """Return an answer from its JSON.

    Raises:
        TuningLostError: It is none.
    """
    try:
        check_size(text, TUNING_RESULT)
        return TuningResult.model_validate_json(text)
    except TooLargeError as error:
        raise TuningLostError(f"Weir cannot read the result of the tuning: {error}") from error
    except ValidationError as error:
        raise TuningLostError(
            f"Expected the result of a tuning, got something else ({_first(error)}); "
            "Weir tunes again"
        ) from error


def write_frames(text: str, out: TextIO) -> None:
    """Print a text in frames."""
    packed = base64.b64encode(zlib.compress(text.encode())).decode("ascii")
    digest = hashlib.sha256(packed.encode()).hexdigest()
    parts = [packed[begin : begin + WIDTH] for begin in range(0, len(packed), WIDTH)]
    for number, part in enumerate(parts, start=1):
        print(f"{_FRAME}{digest} {number}/{len(parts)} {part}", file=out)
    out.flush()


def read_frames(log: str) -> str:
    """Return the text whose frames are in a log.

    Raises:
        TuningLostError: It is not there, or not whole.
    """
    frames = [frame for line in log.splitlines() if (frame := _FRAME_LINE.fullmatch(line))]
    if not frames:
        raise TuningLostError("Expected a result in the log of the tuning, found none")
    last = frames[-1]
    parts = {
        int(frame["number"]): frame["part"] for frame in frames if frame["digest"] == last["digest"]
    }
    packed = "".join(parts[number] for number in sorted(parts))
    if hashlib.sha256(packed.encode()).hexdigest() != last["digest"]:
        raise TuningLostError(
            f"Expected {last['count']} lines of a result in the log of the tuning, "
            f"got {len(parts)}, which is incomplete"
        )
    try:
        return inflate(base64.b64decode(packed, validate=True), TUNING_RESULT.bytes).decode()
    except TooLargeError as error:
        raise TuningLostError(f"Weir cannot read the result of the tuning: {error}") from error
    except ValueError as error:  # binascii.Error and UnicodeDecodeError are, too
        raise TuningLostError(f"Expected a packed result in the log, got: {error}") from error


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        mistake = error.errors()[0]
        where = ".".join(str(step) for step in mistake["loc"])
        return f"{where}: {mistake['msg']}" if where else str(mistake["msg"])
    return str(error)
