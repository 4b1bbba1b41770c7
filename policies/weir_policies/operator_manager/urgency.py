"""How urgent a change is, on one scale for all policies: needs above `NEEDED`, savings below."""

from __future__ import annotations

from weir_policies.promise import NEEDED


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
