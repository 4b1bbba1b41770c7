"""Pseudo-random numbers as a function of the place where they are used.

Numbers depend on (seed, slot, operator, purpose), not on a stream: the draws of one feature do not
shift those of another, and the tests' oracle draws the same.

Source of the mixing: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
2014 (SplitMix64).
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled

# What a number is for.
RATE_NOISE, TIME_NOISE, BUSY_NOISE, MISSING, LOSS, SPEED, NODE = range(7)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@compiled
def _mix(state: np.uint64) -> np.uint64:
    state = (state ^ (state >> _30)) * _FIRST
    state = (state ^ (state >> _27)) * _SECOND
    return state ^ (state >> _31)


@compiled
def draw(seed: int, slot: int, row: int, purpose: int) -> float:
    """Return a number from [0, 1), evenly distributed."""
    state = _mix(np.uint64(seed) + _GOLDEN)
    state = _mix(state + np.uint64(slot) * _GOLDEN)
    state = _mix(state + np.uint64(row) * _GOLDEN)
    state = _mix(state + np.uint64(purpose) * _GOLDEN)
    return np.float64(state >> _11) / 9007199254740992.0


@compiled
def draw_factor(seed: int, slot: int, row: int, purpose: int, spread: float) -> float:
    """Return a factor around 1 of log-normal law, whose logarithm has this standard deviation."""
    if spread == 0:
        return 1.0
    first = 1 - draw(seed, slot, row, purpose)
    second = draw(seed, slot, row, purpose + 64)
    normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    return np.exp(spread * normal)
