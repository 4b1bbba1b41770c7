"""Formats figures and deployments for the reasons of decisions, and puts urgency on one scale.

Needs have an urgency above `NEEDED`, savings below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import NEEDED

SMALLEST = 0.0001
"""Amount of money below which the exact figure does not matter."""


def format_time(seconds: float) -> str:
    """Return a time such as `4.2 ms`, `350 ms` or `1.5 s`."""
    if math.isinf(seconds):
        return "for ever"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def format_rate(rate: float) -> str:
    """Return a rate such as `12.5 records/s`."""
    return f"{rate:,.0f} records/s" if rate >= 100 else f"{rate:.3g} records/s"


def format_share(share: float) -> str:
    """Return a share such as `85 %`."""
    return f"{share * 100:.0f} %"


def format_money(amount: float) -> str:
    """Return an amount such as `1,204.50`, `12.30` or `0.085`; the currency is the manifest's."""
    if abs(amount) >= 1:
        return f"{amount:,.2f}"
    return f"{amount:.3g}" if abs(amount) >= SMALLEST or amount == 0 else f"under {SMALLEST}"


def format_deployment(deployment: Deployment, node_types: Sequence[NodeType]) -> str:
    """Return a deployment such as `2 x small/500m + 1 x large/1`."""
    named = deployment.named(node_types)
    return " + ".join(f"{count} x {name}" for name, count in named.items()) or "nothing"


def urgency_of_need(severity: float) -> float:
    """Return the urgency of a change that the objective needs.

    Args:
        severity: 0 where the objective is just about to be missed, 1 where nothing worse can be;
            what is outside is cut off.
    """
    return NEEDED + (1 - NEEDED) * min(max(severity, 0.0), 1.0)


def urgency_of_saving(saved_share: float) -> float:
    """Return the urgency of a change that only saves; above 0 and always below `NEEDED`.

    Args:
        saved_share: Part of the present cost that is saved, or another measure in [0, 1].
    """
    return NEEDED * min(max(saved_share, 0.01), 0.99)
