"""Settings of AuTraScale+, with what the paper prints of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from weir_policies.application_manager.autrascale.benefit import find_threshold
from weir_policies.parameters import refuse_outside


class Transfer(StrEnum):
    """How a search at a new rate begins."""

    LIGHTWEIGHT = "lightweight"
    """Algorithm 2."""
    TRADITIONAL = "traditional"
    """The authors' earlier way."""
    NONE = "none"
    """Anew, with a bootstrap set of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AutrascaleSettings:
    """Settings of `autrascale`.

    Raises:
        ParameterError: One is out of its range.
    """

    alpha: float = 0.8
    """Weight of the latency in the benefit score; follows from the scores that are published."""
    overallocation: float = 1.0
    """w: how many times more replicas than needed are borne; follows from the published 0.9."""
    margin: float = 0.1
    """xi of the expected improvement; not published. Of 0 to 0.1 this needs the fewest runs."""
    uniform: int = 6
    """M, uniform parallelisms of the bootstrap set; follows from the 10 samples of WordCount."""
    transfer: Transfer = Transfer.LIGHTWEIGHT
    transfer_weight: float = 1.0
    """How much a real sample counts against an old one; not published."""
    transfer_runs: int = 10
    """Num: runs after which a search stops relying on another rate's model; not published."""
    runs: int = 20
    """Runs of a search at most: Algorithms 1 and 3 have no end where nothing meets the targets."""
    settle: float = 60.0
    """T_d, seconds on a parallelism before it is judged; 300 to 600 in the paper's cluster."""
    event_time: float | None = None
    """L_e, seconds: bound on a record's age at the sink. `None` bounds none."""
    catch_up: float = 300.0
    """T_limit, seconds in which a backlog is worked off."""
    beta: float | None = None
    """Of the throughput score, records/s. `None` is a fifth of the throughput aimed at, as 10,000
    is of the published cases: the paper wants its order of magnitude."""
    gap: float = 2.0
    """Seconds that the two restarts of a boost take out of `catch_up`, together."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("alpha", self.alpha, low=0, high=1)
        for name in ("overallocation", "margin", "gap"):
            refuse_outside(name, getattr(self, name), low=0)
        for name in ("uniform", "runs"):
            refuse_outside(name, getattr(self, name), low=1)
        refuse_outside("transfer_runs", self.transfer_runs, low=0)
        for name in ("transfer_weight", "settle", "event_time", "catch_up", "beta"):
            refuse_outside(name, getattr(self, name), low=0, low_allowed=False)

    @property
    def threshold(self) -> float:
        """Benefit score from which a parallelism is good enough, s_l."""
        return find_threshold(self.alpha, self.overallocation)
