"""What a change of a job did, in few words. Pure."""

from __future__ import annotations

from weir_operator.rescale.journal import DeploymentMap, Kind, RescaleJournal, Step

_DID = {
    Kind.START: "Started",
    Kind.RESCALE: "Rescaled",
    Kind.RESIZE: "Resized",
    Kind.RECOVER: "Recovered",
    Kind.SUSPEND: "Suspended",
    Kind.UPGRADE: "Upgraded",
}
_ENDS = {
    Step.DONE: "",
    Step.ROLLED_BACK: ", rolled back",
    Step.ABANDONED: ", abandoned",
    Step.FAILED: ", failed",
}
_MOST_OPERATORS = 3
"""More would not fit into a column of `kubectl get`."""


def say_difference(source: DeploymentMap, target: DeploymentMap) -> str:
    """Return which operators change how, such as `match 2 -> 3`; empty where none does.

    Where only pools or sizes change, the new deployment is said: `match -> 2 large/1`.
    """
    parts = []
    for operator, counts in target.items():
        before = source.get(operator, {})
        if counts == before:
            continue
        was, will = sum(before.values()), sum(counts.values())
        if was != will:
            parts.append(f"{operator} {was} -> {will}")
        else:
            types = " + ".join(f"{count} {name}" for name, count in sorted(counts.items()))
            parts.append(f"{operator} -> {types}")
    more = len(parts) - _MOST_OPERATORS
    shown = parts[:_MOST_OPERATORS] + ([f"{more} more"] if more > 0 else [])
    return ", ".join(shown)


def say_change(change: RescaleJournal) -> str:
    """Return a change that has ended in a few words, with the seconds that it took."""
    took = max(change.times.values(), default=change.created) - change.created
    moved = change.kind in (Kind.RESCALE, Kind.RESIZE, Kind.UPGRADE)
    difference = say_difference(change.source, change.target) if moved else ""
    did = f"{_DID[change.kind]} {difference}".rstrip()
    return f"{did}{_ENDS[change.step]} in {took:.3g} s"
