"""What usually arrives at an operator, as an experiment says it."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from weir_policies.model.season import HOURS, Season
from weir_simulator.section import AboveZero, AtLeastZero, Section


class UsualWeek(Section):
    """The usual course of an operator's rate, which policies that can use it begin with."""

    rates: Annotated[tuple[AtLeastZero | None, ...], Field(min_length=HOURS, max_length=HOURS)] = (
        Field(examples=[[100.0] * HOURS])
    )
    """Records/s for each of the 168 hours of a week; the first is the hour in which the run begins.
    `null` where nobody knows."""
    weeks: AboveZero = Field(default=1.0, examples=[4])
    """How many weeks it was watched for."""

    @property
    def season(self) -> Season:
        """The same as the policies have it."""
        rates = tuple(math.nan if rate is None else rate for rate in self.rates)
        return Season(rates=rates, weeks=self.weeks)

    @classmethod
    def of(cls, season: Season) -> UsualWeek:
        """Return a season as an experiment says it, to four digits: no rate is known better."""
        rates = tuple(None if math.isnan(each) else float(f"{each:.4g}") for each in season.rates)
        return cls(rates=rates, weeks=season.weeks)
