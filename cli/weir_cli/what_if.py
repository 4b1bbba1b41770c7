"""The what-if options of a command, read from text and applied to an experiment."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Experiment
from weir_simulator.what_if import with_pool, with_price, with_traffic, without_pool

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A change to look at."""

    words: str
    """What it is, for people."""
    apply: Callable[[Experiment], Experiment]


def read_what_ifs(
    *,
    prices: Sequence[str],
    traffic: float | None,
    pools: Sequence[str],
    without: Sequence[str],
) -> list[WhatIf]:
    """Return the changes that the options name, in the order in which they are applied.

    Args:
        prices: `POOL=FACTOR`.
        traffic: Factor of the arrival rates; `None` leaves them.
        pools: Pools to add, `NAME=SPEEDUP:PRICE`.
        without: Pools to take away.

    Raises:
        ExperimentError: A text is not of its form.
    """
    # Pools are added before others go, so that the only one can be replaced, and priced as added.
    changes = [_add_pool(text) for text in pools]
    changes += [_drop_pool(pool) for pool in without]
    changes += [_change_price(text) for text in prices]
    if traffic is not None:
        changes.append(_change_traffic(traffic))
    return changes


def apply_all(experiment: Experiment, changes: Sequence[WhatIf]) -> Experiment:
    """Return the experiment with every change made.

    Raises:
        ExperimentError: A change cannot be made.
    """
    for change in changes:
        experiment = change.apply(experiment)
    return experiment


def _add_pool(text: str) -> WhatIf:
    pool, speedup, price = _match(
        rf"(.+)=({_NUMBER}):({_NUMBER})", text, "--pool: expected NAME=SPEEDUP:PRICE", "spot=1:0.4"
    )
    return WhatIf(
        f"with pool {pool} (speedup {speedup}, price {price})",
        lambda it: with_pool(it, pool, speedup=float(speedup), price=float(price)),
    )


def _drop_pool(pool: str) -> WhatIf:
    return WhatIf(f"without pool {pool}", lambda it: without_pool(it, pool))


def _change_price(text: str) -> WhatIf:
    pool, factor = _match(rf"(.+)=({_NUMBER})", text, "--price: expected POOL=FACTOR", "large=1.5")
    return WhatIf(f"price of {pool} times {factor}", lambda it: with_price(it, pool, float(factor)))


def _change_traffic(factor: float) -> WhatIf:
    return WhatIf(f"traffic times {factor:g}", lambda it: with_traffic(it, factor))


def _match(pattern: str, text: str, expected: str, example: str) -> tuple[str, ...]:
    found = re.fullmatch(pattern, text)
    if found is None:
        raise ExperimentError((f"{expected}, got {text!r}; write for example {example}",))
    return found.groups()
