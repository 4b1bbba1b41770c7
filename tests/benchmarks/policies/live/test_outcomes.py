"""Outcomes that are kept, and what is called again and again meanwhile."""

import threading
from dataclasses import asdict, dataclass

import pytest

from benchmarks.policies.live.outcomes import load_outcomes, pair_up, store_outcome
from benchmarks.policies.live.repeating import call_repeatedly


@dataclass(frozen=True)
class Trial:
    """A run of one side."""

    repeat: int
    cost: float

    @property
    def pair(self):
        return "trips", "taxi", self.repeat


def test_an_outcome_replaces_the_one_of_the_same_name(tmp_path):
    folder = tmp_path / "outcomes"
    for name, outcome in (("b", Trial(2, 0.1)), ("a", Trial(1, 0.2)), ("b", Trial(2, 0.3))):
        store_outcome(folder / f"{name}.json", asdict(outcome))

    assert load_outcomes(folder, Trial) == [Trial(1, 0.2), Trial(2, 0.3)]


def test_runs_are_paired_on_equal_arrivals_in_order_of_ours():
    ours, theirs = [Trial(3, 0.1), Trial(1, 0.2), Trial(4, 0.3)], [Trial(1, 0.5), Trial(3, 0.6)]

    assert pair_up(ours, theirs) == [(ours[0], theirs[1]), (ours[1], theirs[0])]


def test_a_function_is_called_again_until_the_block_is_left():
    calls, enough = [], threading.Event()

    def count():
        calls.append(1)
        if len(calls) == 3:
            enough.set()

    with call_repeatedly(count, period=0.001, name="counting"):
        assert enough.wait(30)

    assert "counting" not in [thread.name for thread in threading.enumerate()]


def test_a_failure_ends_the_calls_and_is_raised_where_the_block_is_left():
    calls, failed = [], threading.Event()

    def fail():
        calls.append(1)
        failed.set()
        raise OSError("gone")

    with (
        pytest.raises(OSError, match="gone"),
        call_repeatedly(fail, period=0.001, name="failing"),
    ):
        assert failed.wait(30)

    assert len(calls) == 1
