"""What other StreamApps of the same installation were tuned to, for those that are similar.

Similar are StreamApps that the same policy scales with the same parameters: to another, weights
mean something else. What differs besides, such as traffic, bound and operators, the search sees,
which only begins with these points (`weir_simulator.tuning.warm_starts` says what becomes of their
budgets).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from weir_operator.tuning.store import TUNINGS, Standing, Version, read_tunings
from weir_simulator.tuning.order import Point


def find_similar(folder: Path, key: Mapping[str, JsonValue]) -> list[Point]:
    """Return what is in force at similar StreamApps and was borne out by reality, newest first.

    Args:
        folder: Of the StreamApp's own state; the others' lie beside it.
        key: What its tunings depend on.
    """
    found: list[Version] = []
    for path in folder.parent.glob(f"*/{TUNINGS}"):
        state = None if path.parent == folder else read_tunings(path)
        if state is None or state.present is None or state.present.standing is not Standing.KEPT:
            continue
        if all(state.key.get(name) == key.get(name) for name in ("policy", "parameters")):
            found.append(state.present)
    return [each.point for each in sorted(found, key=lambda each: each.since, reverse=True)]
