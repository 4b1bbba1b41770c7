"""A box around the best trial, in which a search looks for the next: it grows and shrinks.

If only few weights and budgets meet the limits, the surrogates of the whole cube are vague almost
everywhere, and a search of the whole cube spends trials on unknown points. The box doubles after
some improvements in a row and halves after more failures in a row. If nothing better is found at
its minimum size either, it starts over as large as the cube.

Source: Eriksson, Poloczek: Scalable Constrained Bayesian Optimization, AISTATS 2021, section 3.
Departures:
1. Its edges are equal, not in proportion to length scales.
2. What is proposed within it is the point of greatest constrained expected improvement, not the
   best of a posterior's sample.
3. It starts over around the best trial, and with all trials known, instead of elsewhere with none:
   a tuning has no time for that.
"""

from __future__ import annotations

from weir_policies.application_manager.search.protocol import Limits, TrialOutcome, rank

FIRST_EDGE = 0.4
"""Of a cube with edges of 1; where it begins, and what successes bring it to from either side."""
WHOLE_EDGE = 1.0
"""Where it starts over: nearly everywhere."""
NARROW_EDGE = 0.1
"""At and below, the search may be stuck beside something better."""
MIN_EDGE = 0.05
"""Below, points differ by less than matters to the policies."""
SUCCESSES = 2
"""In a row, until it doubles."""
MIN_FAILURES = 4
"""In a row, until it halves; one per dimension where that is more."""
NOTICEABLE = 0.001
"""Part of the money by which a point must be cheaper to be a success."""


class TrustRegion:
    """The box's edge, by what came of the trials in it."""

    def __init__(self, dimensions: int, limits: Limits) -> None:
        self._patience, self._limits = max(MIN_FAILURES, dimensions), limits
        self._edge = FIRST_EDGE
        self._successes = self._failures = 0

    @property
    def edge(self) -> float:
        """Length of its edges; they end where the cube does."""
        return self._edge

    @property
    def is_narrow(self) -> bool:
        """Whether it has failed so often that looking elsewhere is worth trials, too."""
        return self._edge <= NARROW_EDGE

    def judge(self, outcome: TrialOutcome, best: TrialOutcome) -> None:
        """Take note of what came of a trial; `best` is the best outcome before it."""
        if self._succeeds(outcome, best):
            self._successes, self._failures = self._successes + 1, 0
        else:
            self._successes, self._failures = 0, self._failures + 1
        if self._successes == SUCCESSES:
            self._edge, self._successes = min(FIRST_EDGE, 2 * self._edge), 0
        elif self._failures == self._patience:
            half = self._edge / 2
            self._edge = WHOLE_EDGE if half < MIN_EDGE else half
            self._failures = 0

    def _succeeds(self, outcome: TrialOutcome, best: TrialOutcome) -> bool:
        excess, money = rank(best, self._limits)
        return rank(outcome, self._limits) < (excess, money * (1 - NOTICEABLE))
