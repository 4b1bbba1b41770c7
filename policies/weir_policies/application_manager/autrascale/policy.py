"""`autrascale`: AuTraScale+ as a policy for all operators of an application.

`learn` takes the newest interval in and advances the policy controller once the application has
settled on what it was sent to; `decide` only says where that is. A target found from the
observations of a moment holds from the next one on, so that operators that are asked one after
another, each after its own `learn`, get the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from weir_policies.application_manager.autrascale import policy_controller
from weir_policies.application_manager.autrascale.policy_controller import Phase, Plan
from weir_policies.application_manager.autrascale.replicas import (
    ModelProfile,
    find_most,
    measure,
    measure_true_rate,
    resize_mix,
)
from weir_policies.application_manager.autrascale.settings import AutrascaleSettings
from weir_policies.application_manager.autrascale.values import Measurement, Parallelism
from weir_policies.errors import StateError
from weir_policies.model.cost import price_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.staying import expect_nothing, find_unknown, hold, stay
from weir_policies.operator_manager.urgency import urgency_of_need, urgency_of_saving
from weir_policies.operator_manager.wording import say_deployment
from weir_policies.parameters import read_parameters
from weir_policies.promise import (
    ApplicationPolicy,
    Candidate,
    Decision,
    Expectation,
    Observation,
    Transition,
)

VERSION = 1
NEEDED = ("processed", "response_time", "backlog", "budget")
"""Fields of an observation without which nothing is learned and nothing moves."""
PATIENCE = 10
"""Times `settle` after which a target that the application was not sent to is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Everything that is learned."""

    names: tuple[str, ...]
    """Operators in the order of the dataflow."""
    plan: Plan
    before: Parallelism
    """What was aimed at before the plan's target was found."""
    found_at: float
    """When the target was found, seconds on the caller's clock; it holds after that."""
    running_since: float | None
    """When the application was first seen on the target; `None` where it is not there."""

    @property
    def grows(self) -> bool:
        """Whether the target is needed: it has more replicas, or the rate is not carried."""
        return sum(self.plan.target) > sum(self.before) or self.plan.phase is Phase.THROUGHPUT


_PROGRESS = TypeAdapter(Progress)


def define(values: Mapping[str, Any], *, name: str, rng: np.random.Generator) -> ApplicationPolicy:
    """Return the policy registered as `autrascale`, its parameters bound."""
    return AutrascalePolicy(read_parameters(AutrascaleSettings, values, policy=name), rng)


class AutrascalePolicy:
    """Chooses the deployments of all operators at once."""

    def __init__(self, settings: AutrascaleSettings, rng: np.random.Generator) -> None:
        self._settings = settings
        self._rng = rng
        self._progress: Progress | None = None

    def decide(self, observations: Mapping[str, Observation]) -> Mapping[str, Decision]:
        """Say of each operator where the plan sends it."""
        return {name: self._decide(name, seen) for name, seen in observations.items()}

    def learn(self, transitions: Mapping[str, Transition]) -> None:
        """Take in the newest interval of all operators."""
        seen = {name: each.next_observation for name, each in transitions.items()}
        if any(find_unknown(each, *NEEDED) is not None for each in seen.values()):
            return
        observations = tuple(seen.values())
        if observations[0].rate <= 0:
            return
        measured, now = measure(observations), observations[0].time
        progress = self._progress
        if progress is None or progress.names != tuple(seen):
            progress = Progress(
                names=tuple(seen),
                plan=policy_controller.begin(measured),
                before=measured.parallelism,
                found_at=now,
                running_since=None,
            )
        self._progress = self._take_in(progress, measured, observations, now)

    def state_dict(self) -> Mapping[str, Any]:
        """Return everything learned as plain JSON values."""
        learned = self._progress and _PROGRESS.dump_python(self._progress, mode="json")
        generator = self._rng.bit_generator.state
        return {"version": VERSION, "progress": learned, "generator": generator}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore exactly what `state_dict` returned.

        Raises:
            StateError: It is of another version, or of something else.
        """
        if state.get("version") != VERSION:
            raise StateError(
                f"Expected state of autrascale, version {VERSION}, got {state.get('version')!r}"
            )
        learned = state["progress"]
        try:
            self._progress = None if learned is None else _PROGRESS.validate_python(learned)
        except ValidationError as error:
            raise StateError(f"Expected the progress of autrascale: {error}") from error
        self._rng.bit_generator.state = state["generator"]

    def _take_in(
        self,
        progress: Progress,
        measured: Measurement,
        observations: tuple[Observation, ...],
        now: float,
    ) -> Progress:
        plan, settle = progress.plan, self._settings.settle
        if measured.parallelism != plan.target:
            if now - progress.found_at <= PATIENCE * settle:
                return replace(progress, running_since=None)
            plan = replace(policy_controller.begin(measured), models=plan.models)
            progress = replace(progress, plan=plan, found_at=now, before=measured.parallelism)
        since = now if progress.running_since is None else progress.running_since
        progress = replace(progress, running_since=since)
        if now - since < settle and plan.phase is not Phase.BOOST:
            return progress
        following = policy_controller.advance(
            plan,
            measured,
            tuple(find_most(each) for each in observations),
            bound=sum(each.budget for each in observations),
            now=now,
            settings=self._settings,
            profile=ModelProfile(observations, measured),
            rng=self._rng,
        )
        if following.target == plan.target:
            return replace(progress, plan=following)
        return replace(
            progress, plan=following, before=plan.target, found_at=now, running_since=None
        )

    def _decide(self, name: str, seen: Observation) -> Decision:
        unknown = find_unknown(seen, *NEEDED)
        if unknown is not None:
            return hold(seen, unknown)
        progress = self._progress
        if progress is None or name not in progress.names:
            return stay(seen, "Stays: no interval of all operators was measured yet")
        place = progress.names.index(name)
        is_known = seen.time > progress.found_at
        aim = progress.plan.target if is_known else progress.before
        target = resize_mix(seen, aim[place])
        if target == seen.deployment:
            return stay(seen, _say_why_it_stays(progress.plan, seen, is_known))
        reason = progress.plan.reason
        chosen = Candidate(
            deployment=target,
            score=0.0,
            expectation=_expect(seen, target),
            verdict=f"Chosen as a part of {aim}",
        )
        present = Candidate(
            deployment=seen.deployment,
            score=1.0,
            expectation=expect_nothing(seen),
            verdict=f"Rejected: the application was sent to {aim}",
        )
        moved = abs(target.size - seen.deployment.size) / max(target.size, seen.deployment.size)
        return Decision(
            target=target,
            reason=f"Goes to {say_deployment(target, seen.model.node_types)}: {reason}",
            candidates=(chosen, present),
            expectation=chosen.expectation,
            # One scale for all operators: a part of a joint target is of no use alone.
            urgency=urgency_of_need(moved) if progress.grows else urgency_of_saving(moved),
        )


def _say_why_it_stays(plan: Plan, seen: Observation, is_known: bool) -> str:
    if not is_known or plan.phase is not Phase.STEADY:
        return f"Stays with {seen.deployment.size} while the application is measured: {plan.reason}"
    return plan.reason if plan.reason.startswith("Stays") else f"Stays: {plan.reason}"


def _expect(seen: Observation, target: Deployment) -> Expectation:
    true_rate = measure_true_rate(seen)
    return Expectation(
        response_time=float("nan"),
        utilisation=seen.rate / (true_rate * target.size) if true_rate > 0 else float("nan"),
        cost_per_hour=price_per_hour(target, seen.model.node_types),
    )
