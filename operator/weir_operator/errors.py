"""The errors of the live world.

Foreign errors (Flink, Prometheus, processes, Kubernetes) are wrapped at the edge into one of these
two, so that a loop needs to know only whether trying again can help.
"""


class WeirError(Exception):
    """Base of what Weir raises in the live world."""


class TemporaryError(WeirError):
    """Trying again later may succeed: a time-out, a refused connection, a busy JobManager."""


class PermanentError(WeirError):
    """Trying again cannot succeed without a change by a person."""


class InvalidStreamAppError(PermanentError):
    """A manifest that cannot be right; `mistakes` has one sentence for each mistake."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class ResizeRefusedError(WeirError):
    """The node cannot give the size now; the change must become a rescale."""


class PodsPendingError(TemporaryError):
    """Replicas found no place in time: the pool is full, a quota used up, an image missing.

    `groups` has the operator and the pool of each.
    """

    def __init__(self, message: str, groups: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message)
        self.groups = groups


class SavepointFailedError(WeirError):
    """The job could not be stopped with a savepoint; it still runs or restarts."""


class JobFailedError(WeirError):
    """The job ended, or never came to run."""


class AlreadySteeredError(PermanentError):
    """Another Weir process steers this StreamApp."""
