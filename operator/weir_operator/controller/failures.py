"""What fails beside the loops of a job: told, remembered until it works again, and survived."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from weir_operator.controller.notices import Notices
from weir_operator.errors import WeirError, describe_unexpected
from weir_policies.errors import WeirPolicyError
from weir_simulator.errors import SimulatorError

log = structlog.get_logger()


class Failures:
    """The last failure of each piece of work, by the reason of its event."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices
        self._last: dict[str, str] = {}

    def last(self, reason: str) -> str:
        """Return why the work failed when it was last done; empty where it did not."""
        return self._last.get(reason, "")

    @contextmanager
    def survived(self, reason: str) -> Iterator[None]:
        """Tell what fails within, and go on."""
        failure = ""
        try:
            yield
        except (WeirError, WeirPolicyError, SimulatorError) as error:
            failure = str(error)
        except Exception as error:
            log.exception("unexpected error", work=reason)
            failure = describe_unexpected(error)
        self._last[reason] = failure
        self._notices.tell_while(reason, failure)
