"""Says of a job that fails again and again how often it does, and why. Pure.

Flink restarts a job that fails by itself, in a second or two. Weir counts what Flink remembers: one
failure may be a lost node, of which an event speaks already; several are something that people
should hear of, although the job seems to run most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from weir_operator.flink.answers import JobFailure
from weir_policies.kernels.wording import format_time

FAILING = 2
"""Failures that are reported."""
WITHIN = 600.0
"""Seconds after which a failure counts no more."""


def describe_failures(failures: Sequence[JobFailure], now: float) -> str:
    """Return that a job fails again and again, a sentence without a full stop, or nothing.

    Args:
        failures: Those that Flink remembers, the newest first.
        now: Unix seconds.
    """
    recent = [each for each in failures if now - each.time <= WITHIN]
    if len(recent) < FAILING:
        return ""
    span = now - min(each.time for each in recent)
    return (
        f"The job has failed {len(recent)} times in {format_time(span)}, and Flink restarts it: "
        f"{recent[0].cause}"
    )
