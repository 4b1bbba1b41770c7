"""The errors of the controller.

Foreign errors (Flink, Prometheus, processes, Kubernetes) are wrapped at the edge into one of these
two, so that a loop needs to know only whether a retry can help.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath


class WeirError(Exception):
    """Base of what Weir raises in the controller."""


class TemporaryError(WeirError):
    """Trying again later may succeed: a time-out, a refused connection, a busy JobManager."""


class PermanentError(WeirError):
    """Trying again cannot succeed without a change by a person."""


class InvalidStreamAppError(PermanentError):
    """A manifest that cannot be right; `mistakes` has one sentence for each mistake."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class NotInProgramError(PermanentError):
    """The job's program lacks a class or operator that the manifest names: it can never run."""


class ResizeRefusedError(WeirError):
    """The node cannot give the size now; the change must become a rescale."""


class PodsPendingError(TemporaryError):
    """Replicas found no place in time: the pool is full, a quota used up, an image missing.

    `groups` has the operator and the pool of each.
    """

    def __init__(self, message: str, groups: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message)
        self.groups = groups


class JobFailedError(WeirError):
    """The job ended, or never came to run."""


class UnexpectedJobError(WeirError):
    """The JobManager runs a job that Weir does not expect; nothing is done until a person has."""


class UndeclaredReasonError(WeirError):
    """An event's reason is in no list of `loop.events`: a defect of Weir."""


class AlreadySteeredError(PermanentError):
    """Another Weir process manages this StreamApp."""


def describe_unexpected(error: BaseException) -> str:
    """Return a sentence about an error that is no `WeirError`: its kind and where it arose.

    Its own text may quote what is secret, or what a job has answered: that is for the log alone.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "weir_" in frame.filename] or frames
    place = f" in {PurePath(own[-1].filename).name}, {own[-1].name}" if own else ""
    return (
        f"An unexpected {type(error).__name__}{place}: see the log for details; "
        "if the manifest is right, report it as a defect in Weir"
    )
