"""Many runs side by side: every experiment with every policy and seed, in processes of their own.

`plan_runs` says which, `run_all` runs them; `comparison` says what came of them. A policy that
cannot take an experiment (its table would be too large, say) gives the sentence that refuses it,
and does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weir_policies import registry
from weir_policies.errors import WeirPolicyError
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment import Experiment
from weir_simulator.processes import run_in_processes
from weir_simulator.run import Result, simulate


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """One run to make."""

    name: str
    """What to call the experiment."""
    experiment: Experiment
    policy: str
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedRun:
    """A run that was made, or refused."""

    planned: PlannedRun
    result: Result | None
    refusal: str = ""
    """Why there is no result, in a sentence."""


def plan_runs(
    experiments: Mapping[str, Experiment], policies: Sequence[str] = ()
) -> list[PlannedRun]:
    """Return every run: experiments by policies by seeds.

    Args:
        experiments: By the name to call them.
        policies: Names; without any, each experiment's own.

    Raises:
        UnknownPolicyError: No policy has such a name.
    """
    for policy in policies:
        registry.neighbourhood(policy)  # refuses an unknown name before anything runs
    return [
        PlannedRun(name=name, experiment=experiment, policy=policy, seed=seed)
        for name, experiment in experiments.items()
        for policy in dict.fromkeys(policies or [experiment.policy.name])
        for seed in experiment.seeds
    ]


def run_all(
    planned: Sequence[PlannedRun], *, on_finished: Callable[[FinishedRun], None]
) -> list[FinishedRun]:
    """Make the runs, as many at once as there are processors, and return them in order.

    Args:
        planned: What to run.
        on_finished: Called after each run, in the order in which they finish.

    Raises:
        SimulatorError: A process was killed from outside, for example for want of memory.
    """
    return run_in_processes(run_one, planned, on_finished=on_finished)


def run_one(planned: PlannedRun) -> FinishedRun:
    """Make one run, or say why it cannot be made."""
    try:
        result = simulate(planned.experiment, seed=planned.seed, policy=planned.policy)
    except (WeirPolicyError, SimulatorError) as error:
        return FinishedRun(planned=planned, result=None, refusal=str(error))
    return FinishedRun(planned=planned, result=result)
