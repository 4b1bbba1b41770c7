"""EDF's Application Manager in the simulator: which of the operators' proposals are made.

Without it, all proposals of a slot are carried out, in one restart. With a token bucket, each one
that restarts the job needs a token. Where the experiment has `nodes`, each proposal for one more
replica draws one of them, evenly; of those that draw the same, only the one with the highest score
is kept. A denied proposal is forgotten, and its policy learns that it
was denied (it gets what it proposed and what was done). Resizes need no token. After a restart, the
managers may be suspended: they neither learn nor decide until the job has settled.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 7 and 8.3. Departure: there a node that is nearer is drawn more often, by a law that was
not published, and only nodes with free capacity are drawn; here all are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from weir_policies.application_manager.edf import (
    Adaptation,
    AdaptationRequest,
    TokenRules,
    Tokens,
    drop_conflicts,
    grant,
)
from weir_simulator.experiment import Experiment
from weir_simulator.randomness import NODE, draw


class Arbiter:
    """The Application Manager of one run."""

    asked = 0
    """Proposals of operators that would restart the job; none where nothing is ever denied."""
    granted = 0
    """Those of them that were granted."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        """Begin with an empty bucket; `seed` is the run's."""
        settings, bound = experiment.arbitration, experiment.objective.response_time
        self._slot = experiment.slot
        self._bucket: TokenRules | None = None
        if settings.token_bucket is not None:
            bucket = settings.token_bucket
            every = 2 * experiment.slot if bucket.every is None else bucket.every
            self._bucket = TokenRules(
                low=bucket.low * bound, high=bucket.high * bound, every=every, size=bucket.size
            )
        self._tokens = Tokens()
        self._seed, self._nodes = seed, settings.nodes
        self._rows = {each.name: row for row, each in enumerate(experiment.operators)}
        self._seen: list[float] = []
        self._suspension, self._active_from = settings.suspension, 0.0

    def note(self, response_time: float, t: int) -> None:
        """Take in the application's response time of slot `t`, s; it may make a token."""
        if self._bucket is None:
            return
        self._seen.append(response_time)
        now = t * self._slot  # s
        made = self._tokens.generate(self._bucket, response_time=fmean(self._seen), now=now)
        if made.generated_at == now:
            self._seen.clear()
        self._tokens = made

    def is_active(self, t: int) -> bool:
        """Return whether the managers learn and decide in slot `t`."""
        return t * self._slot >= self._active_from

    def restarted(self, t: int) -> None:
        """Suspend the managers after a restart that was decided in slot `t`."""
        self._active_from = (t + 1) * self._slot + self._suspension

    def deny(self, requests: Sequence[AdaptationRequest], t: int) -> set[str]:
        """Return the operators whose request conflicts or finds no token; the others' are spent."""
        if self._bucket is None and self._nodes is None:
            return set()
        granted = list(requests)
        if self._nodes is not None:
            placed = [self._place(each, self._nodes, t) for each in requests]
            granted = drop_conflicts(placed, {str(node): 1 for node in range(self._nodes)})
        if self._bucket is not None:
            granted, self._tokens = grant(granted, self._tokens)
        self.asked += len(requests)
        self.granted += len(granted)
        return {each.operator for each in requests} - {each.operator for each in granted}

    def _place(self, request: AdaptationRequest, nodes: int, t: int) -> AdaptationRequest:
        """Return the request with the node that it wants, where it wants one."""
        if request.kind is Adaptation.SCALE_IN:
            return request
        node = int(nodes * draw(self._seed, t, self._rows[request.operator], NODE))
        return replace(request, places={str(node): 1})
