"""What the loops of one StreamApp need of its manifest, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from weir_operator.controller.verdict import VerdictSettings
from weir_operator.metrics.quality import QualitySettings
from weir_operator.streamapp.models import Mode


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopSettings:
    """How the loops of one StreamApp run."""

    app: str
    """Name for people and records."""
    mode: Mode
    interval: float
    """Seconds between two ticks."""
    bound: float
    """The objective, seconds."""
    statistic: str
    """What of the response time is bounded: `mean`, `p95` or `p99`."""
    max_violations: float
    """Share of control intervals that may exceed the bound, in [0, 1]; only told, never decided
    on."""
    policy: str
    """Name under which the policy of the operators is registered."""
    job_manager_price: float
    """Currency per hour."""
    max_parallelism: int
    failed_for: float = 1800.0
    """Seconds for which a deployment that did worse is not tried again."""
    refused_for: float = 300.0
    """Seconds for which sizes that nodes refused are not asked for again, for want of a restart."""
    quality: QualitySettings = field(default_factory=QualitySettings)
    verdict: VerdictSettings = field(default_factory=VerdictSettings)
    save_learned_every: int = 10
    """Intervals between two writes of what was learned, which a crash loses; the end of the loops
    writes it, too."""
    phase: float | None = None
    """Where in the interval the ticks lie, as a share of it, so that a thousand StreamApps do not
    all tick in the same moment; `None` counts from the start of the loops."""
    settle: float = 0.5
    """Part of an interval that a run of the job must have behind it before it is judged: before
    that, what is measured is the restart."""
