"""Where a benchmark's settings are not the paper's, for the page on reproduction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """One setting, the paper's beside ours."""

    what: str
    paper: str
    """What the paper says, in its own terms; `not said` where it is silent."""
    here: str
    """Made from the constants that the benchmark runs with, wherever there is one."""
    why: str
