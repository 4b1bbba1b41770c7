"""`autrascale`: AuTraScale+ as a policy for all operators of an application.

`learn` uses the newest interval, and advances the policy controller once the application has
settled on its target; `decide` only returns that target. A target that is found from an interval's
observations applies from the next interval on.

Observations are reduced to numbers of replicas and a chain of operators.

Source: Zhang et al., IEEE TPDS 2024, Eq. 2 for the true rate. Departures:
1. The paper knows no node types. The mix stays as it is, as with `ds2`; a true rate is the mean
   over the present mix.
2. Latencies and budgets are summed over the operators, which is exact for a chain; where the
   dataflow forks, both sums count both branches.
3. For parallelisms that do not run, the operators' queueing models replace runs off line.

The parallelisms on which a model is first trained: M uniform ones, with all operators at
max(pi^t) + i (P_max - max(pi^t)) / (M - 1), show the effect of replicas at all; N with one operator
at its maximum and the others at pi^t show the effect of each.

Source: Zhang et al., IEEE TPDS 2024, section IV-C. Departure: operators may have different limits;
a uniform parallelism above one is cut there, and what coincides is kept once.

AuTraScale+'s policy controller chooses the solver and the parallelism to run:

    throughput below the rate                          -> TO
    latency above its bound, or benefit score too low  -> PLO (once the throughput is enough)
    age above its bound                                -> ELO: boost, then back

All is a value: a state, and a function that takes the next settled measurement in. What cannot be
measured on the running job without a restart (the bootstrap set, the throughput profile) comes from
a `Profile`, which is a fitted model in the controller.

Source: Zhang et al., IEEE TPDS 2024, sections II-B and IV-A, Figs. 3 and 6. Departures:
1. Where the throughput is enough but Eq. 3 asks for fewer replicas, TO goes down and runs them
   before PLO begins: only there are the true rates those of pi^t.
2. A search that found nothing good enough is not begun again until the rate has changed.
3. A boost ends as soon as the age keeps its bound; the paper waits for the end of the time allowed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from pydantic import TypeAdapter, ValidationError

from weir_policies.application_manager.autrascale import event_latency, latency, throughput
from weir_policies.application_manager.autrascale.gaussian_process import (
    find_nearest,
    is_same_rate,
    remember,
)
from weir_policies.application_manager.autrascale.latency import LatencySearch
from weir_policies.application_manager.autrascale.throughput import (
    ThroughputSearch,
    find_target_throughput,
)
from weir_policies.application_manager.autrascale.values import (
    AutrascaleSettings,
    Measurement,
    Parallelism,
    Sample,
    Trained,
    Transfer,
    refuse_unlike,
    score_benefit,
)
from weir_policies.errors import StateError
from weir_policies.kernels.staying import expect_nothing, find_unknown, hold, stay
from weir_policies.kernels.wording import format_deployment, urgency_of_need, urgency_of_saving
from weir_policies.model.cost import price_per_hour
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.deployments import room_for
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict_means
from weir_policies.parameters import read_parameters
from weir_policies.policy import (
    ApplicationPolicy,
    Candidate,
    Decision,
    Expectation,
    Observation,
    OperatorModel,
    Transition,
)


def measure(observations: Sequence[Observation]) -> Measurement:
    """Return what an interval says of the application.

    Args:
        observations: Of the operators in the order of the dataflow; the first one's rate is the
            application's, and is above zero.
    """
    rate = observations[0].rate
    fed = [seen for seen in observations if seen.rate > 0]
    return Measurement(
        parallelism=tuple(seen.deployment.size for seen in observations),
        rate=rate,
        throughput=rate * min(seen.processed / seen.rate for seen in fed),
        demands=tuple(seen.rate for seen in observations),
        true_rates=tuple(measure_true_rate(seen) for seen in observations),
        latency=sum(seen.response_time for seen in observations),
        lag=sum(seen.backlog * rate / seen.rate for seen in fed),
    )


def measure_true_rate(observation: Observation) -> float:
    """Return records/s of a replica that is always busy (Eq. 2); 0 where nothing was processed."""
    busy = sum(observation.utilisation)
    if busy <= 0 or observation.processed * observation.interval < 1:
        return 0.0
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    unbounded = max(observation.utilisation) > 1
    return (observation.rate if unbounded else observation.processed) / busy


def find_most(observation: Observation) -> int:
    """Return the maximum number of replicas of the operator, given the room in its pools."""
    return resize_mix(observation, observation.model.max_replicas).size


def resize_mix(observation: Observation, size: int) -> Deployment:
    """Return the present mix with so many replicas, or as many as fit.

    They come and go on the node type that has the most, the cheapest among equals; what finds no
    room there goes to the next.
    """
    model, counts = observation.model, list(observation.deployment.counts)
    order = sorted(
        range(len(counts)), key=lambda place: (-counts[place], model.node_types[place].price, place)
    )
    for place in order:
        counts[place] -= min(counts[place], max(sum(counts) - size, 0))
    for place in order:
        room = room_for(
            place,
            Deployment(tuple(counts)),
            k_max=model.max_replicas,
            node_types=model.node_types,
        )
        counts[place] += max(min(room, size - sum(counts)), 0)
    return Deployment(tuple(counts))


@dataclass(frozen=True)
class ModelProfile:
    """What the operators' models say of parallelisms that do not run."""

    observations: Sequence[Observation]
    measured: Measurement

    def latency(self, parallelism: Parallelism) -> float:
        """Return the sum of the predicted response times, seconds; `inf` where one is overrun."""
        total = 0.0
        for place, (seen, count) in enumerate(zip(self.observations, parallelism, strict=True)):
            deployments = np.array([resize_mix(seen, count).counts])
            mean, _ = predict_means(self._complete(place), deployments, seen.rate)
            total += float(mean[0])
        return total

    def throughput(self, parallelism: Parallelism) -> float:
        """Return the records/s of the slowest operator, by the true rates."""
        measured = self.measured
        return min(
            (
                count * true_rate * measured.rate / demand
                for count, true_rate, demand in zip(
                    parallelism, measured.true_rates, measured.demands, strict=True
                )
                if true_rate > 0 and demand > 0
            ),
            default=measured.throughput,
        )

    def _complete(self, place: int) -> OperatorModel:
        """Return an operator's model, with the true rate in the place of an unknown service time.

        An operator that did nothing is taken to need no time.
        """
        seen, true_rate = self.observations[place], self.measured.true_rates[place]
        model = seen.model
        if math.isnan(model.service_scv):
            model = replace(model, service_scv=1.0)
        if not math.isnan(model.service_mean):
            return model
        pairs = zip(seen.deployment, model.node_types, strict=True)
        speed = sum(count * kind.speedup for count, kind in pairs) / seen.deployment.size
        return replace(model, service_mean=speed / true_rate if true_rate > 0 else 0.0)


def choose_bootstrap(
    floor: Parallelism, most: Parallelism, uniform: int
) -> tuple[Parallelism, ...]:
    """Return the set S, without repetitions.

    Args:
        floor: pi^t.
        most: P_max of every operator.
        uniform: M, uniform parallelisms asked for.

    Raises:
        ParameterError: The floor exceeds the most.
    """
    refuse_unlike(floor, most)
    low, high = max(floor), max(most)
    steps = max(uniform - 1, 1)
    chosen = []
    for step in range(uniform):
        level = round(low + step * (high - low) / steps)
        chosen.append(
            tuple(max(min(level, top), minimum) for top, minimum in zip(most, floor, strict=True))
        )
    for place, top in enumerate(most):
        chosen.append(
            tuple(top if other == place else minimum for other, minimum in enumerate(floor))
        )
    return tuple(dict.fromkeys(chosen))


SHORTEST_BOOST = 1.0
"""Seconds that are left of the time allowed at least, however long the restarts take."""


class Profile(Protocol):
    """What an application would do on a parallelism that it does not run."""

    def latency(self, parallelism: Parallelism) -> float:
        """Return its processing latency at the present rate, seconds; may be `inf`."""
        ...

    def throughput(self, parallelism: Parallelism) -> float:
        """Return what it gets through against more input than it takes, records/s."""
        ...


class Phase(StrEnum):
    """What the controller is about."""

    STEADY = "steady"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    BOOST = "boost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What to run, why, and everything that was learned on the way."""

    target: Parallelism
    reason: str
    """One sentence for people."""
    phase: Phase = Phase.STEADY
    throughput: ThroughputSearch | None = None
    latency: LatencySearch | None = None
    models: tuple[Trained, ...] = ()
    """By rate, the newest last."""
    settled_rate: float | None = None
    """Rate at which the last search ended, records/s; `None` before the first."""
    back: Parallelism | None = None
    """Where a boost goes back to, pi^p."""
    until: float | None = None
    """When a boost ends at the latest, seconds on the caller's clock."""


def begin(measured: Measurement) -> Plan:
    """Begin with what runs."""
    return Plan(target=measured.parallelism, reason="there is no measurement yet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What is known when the target was measured."""

    measured: Measurement
    """What the target did, once it had settled."""
    most: Parallelism
    """P_max of every operator."""
    bound: float
    """L_p, seconds."""
    now: float
    """Seconds on the caller's clock."""
    settings: AutrascaleSettings
    profile: Profile
    """What other parallelisms would do."""
    rng: np.random.Generator
    """Draws candidates."""


def advance(plan: Plan, at: Situation) -> Plan:
    """Take a settled measurement of a plan's target in, and say what to run next."""
    measured = at.measured
    if plan.phase is Phase.BOOST and plan.back is not None and plan.until is not None:
        return _watch_boost(plan, at)
    if plan.phase is Phase.THROUGHPUT and plan.throughput is not None:
        search = throughput.advance(plan.throughput, measured, at.most, cap=at.settings.runs)
        if not search.over:
            return replace(
                plan, throughput=search, target=search.target, reason=_describe_short(measured)
            )
        if search.limited:
            reason = "more replicas would not raise the throughput"
            return _settle(plan, search.target, measured.rate, reason)
        plan = replace(plan, phase=Phase.STEADY, throughput=None)
        return _judge(plan, at, went_down=search.lean)
    if plan.phase is Phase.LATENCY and plan.latency is not None:
        return _search_on(plan, plan.latency, at)
    return _judge(plan, at)


def _judge(plan: Plan, at: Situation, *, went_down: bool = False) -> Plan:
    """Return what a steady application needs: the Scaling Manager's trigger.

    `went_down` says that the throughput search has just found this parallelism from above.
    """
    measured, settings = at.measured, at.settings
    searched = plan.settled_rate is not None and is_same_rate(plan.settled_rate, measured.rate)
    if not measured.keeps_up and not searched:
        to = throughput.begin(measured, at.most)
        if to.target != measured.parallelism:
            return replace(
                plan,
                phase=Phase.THROUGHPUT,
                throughput=to,
                target=to.target,
                reason=_describe_short(measured),
            )
    # Where the throughput is enough, no operator needs more than it has.
    needed = throughput.count_needed(measured, at.most)
    floor = tuple(min(pair) for pair in zip(needed, measured.parallelism, strict=True))
    score = score_benefit(
        measured.parallelism,
        floor,
        latency=measured.latency,
        latency_bound=at.bound,
        alpha=settings.alpha,
    )
    late = measured.latency > at.bound
    if (late or score < settings.threshold) and not searched and measured.keeps_up:
        if floor != measured.parallelism and not went_down:
            return replace(
                plan,
                phase=Phase.THROUGHPUT,
                throughput=throughput.begin(measured, at.most),
                target=floor,
                reason="by the true rates fewer replicas carry the rate",
            )
        return _search_on(plan, _begin_latency(plan, at, floor), at)
    too_old = settings.event_time is not None and measured.age > settings.event_time
    if too_old and not late:
        return _boost(plan, at)
    reason = (
        f"the latency is {measured.latency * 1000:.3g} ms of {at.bound * 1000:.3g} ms, the benefit "
        f"score {score:.3f}"
    )
    return replace(plan, target=measured.parallelism, phase=Phase.STEADY, reason=reason)


def _begin_latency(plan: Plan, at: Situation, floor: Parallelism) -> LatencySearch:
    settings, rate = at.settings, at.measured.rate
    bootstrap = choose_bootstrap(floor, at.most, settings.uniform)
    old = None if settings.transfer is Transfer.NONE else find_nearest(plan.models, rate)
    estimates = tuple(
        Sample(
            parallelism=each,
            score=score_benefit(
                each,
                floor,
                latency=at.profile.latency(each),
                latency_bound=at.bound,
                alpha=settings.alpha,
            ),
        )
        for each in bootstrap
    )
    return latency.begin(
        at.measured,
        floor,
        at.most,
        bound=at.bound,
        bootstrap=bootstrap,
        estimates=estimates,
        old=old,
    )


def _search_on(plan: Plan, search: LatencySearch, at: Situation) -> Plan:
    """Take a measurement into a latency search; what it learned outlives it."""
    measured = at.measured
    search = latency.advance(search, measured, at.settings, at.rng)
    if not search.over:
        reason = (
            f"after {len(search.runs)} runs at this rate, the model expects most of this "
            f"parallelism; the latency is {measured.latency * 1000:.3g} ms of "
            f"{search.bound * 1000:.3g} ms"
        )
        return replace(
            plan, phase=Phase.LATENCY, latency=search, target=search.target, reason=reason
        )
    plan = replace(plan, models=remember(plan.models, search.summarise()))
    ending = "carries the rate within the bound" if search.met else "is the best one found"
    reason = f"after {len(search.runs)} runs at this rate, this parallelism {ending}"
    return _settle(plan, search.target, measured.rate, reason)


def _settle(plan: Plan, target: Parallelism, rate: float, reason: str) -> Plan:
    return replace(
        plan,
        phase=Phase.STEADY,
        target=target,
        reason=reason,
        throughput=None,
        latency=None,
        settled_rate=rate,
    )


def _boost(plan: Plan, at: Situation) -> Plan:
    """Find what works the backlog off in time, on the profile, and go there."""
    measured, settings = at.measured, at.settings
    allowed = max(settings.catch_up - settings.gap, SHORTEST_BOOST)
    wanted = find_target_throughput(
        rate=measured.rate,
        lag=measured.lag,
        latency=measured.latency,
        age_bound=settings.event_time or 0.0,
        limit=allowed,
    )
    here = tuple(min(pair) for pair in zip(measured.parallelism, at.most, strict=True))
    search = event_latency.begin(
        wanted, here, at.most, bootstrap=choose_bootstrap(here, at.most, settings.uniform)
    )
    while not search.over:  # ends: `event_latency` is capped by `settings.runs`
        found = at.profile.throughput(search.target)
        search = event_latency.advance(search, found, settings, at.rng)
    aim = f"work off {measured.lag:,.0f} waiting records at {wanted:,.0f} records/s"
    if search.target == measured.parallelism:
        reason = f"no parallelism can {aim}" if search.late else f"this parallelism can {aim}"
        return replace(plan, target=search.target, reason=reason)
    late = ", although even the fastest parallelism is too slow for that" if search.late else ""
    return replace(
        plan,
        phase=Phase.BOOST,
        target=search.target,
        back=measured.parallelism,
        until=at.now + allowed,
        reason=f"a boost of at most {allowed:.0f} s, to {aim}{late}",
    )


def _watch_boost(plan: Plan, at: Situation) -> Plan:
    event_time = at.settings.event_time
    in_time = event_time is None or at.measured.age <= event_time
    ended = plan.until is None or at.now >= plan.until
    if plan.back is None or not (in_time or ended):
        return plan
    why = "the backlog is worked off" if in_time else "its time is over"
    return replace(
        plan,
        phase=Phase.STEADY,
        target=plan.back,
        back=None,
        until=None,
        reason=f"the boost has ended, because {why}",
    )


def _describe_short(measured: Measurement) -> str:
    return (
        f"the job processes {measured.throughput:,.0f} of {measured.rate:,.0f} records/s, and by "
        "the true rates this parallelism carries more"
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
        search = self.plan.throughput
        return sum(self.plan.target) > sum(self.before) or (search is not None and not search.lean)


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

    def decide(
        self, observations: Mapping[str, Observation], dataflow: Dataflow
    ) -> Mapping[str, Decision]:
        """Say of each operator where the plan sends it."""
        decisions: dict[str, Decision] = {}
        taken: dict[str, int] = {}  # more replicas than now, by pool, of the operators so far
        for name in dataflow.operators:
            if name not in observations:
                continue
            seen = observations[name]
            decision = self._decide(name, _leave_room(seen, taken))
            decisions[name] = decision
            for here, there, node_type in zip(
                seen.deployment, decision.target, seen.model.node_types, strict=True
            ):
                taken[node_type.pool] = taken.get(node_type.pool, 0) + max(there - here, 0)
        return decisions

    def learn(self, transitions: Mapping[str, Transition], dataflow: Dataflow) -> None:
        """Take in the newest interval of all operators."""
        if any(name not in transitions for name in dataflow.operators):
            return
        seen = {name: transitions[name].next_observation for name in dataflow.operators}
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
                plan=begin(measured),
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
            plan = replace(begin(measured), models=plan.models)
            progress = replace(progress, plan=plan, found_at=now, before=measured.parallelism)
        since = now if progress.running_since is None else progress.running_since
        progress = replace(progress, running_since=since)
        if now - since < settle and plan.phase is not Phase.BOOST:
            return progress
        at = Situation(
            measured=measured,
            most=tuple(find_most(each) for each in observations),
            bound=sum(each.budget for each in observations),
            now=now,
            settings=self._settings,
            profile=ModelProfile(observations, measured),
            rng=self._rng,
        )
        following = advance(plan, at)
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
            return stay(seen, "Stays: no interval has measurements of all operators yet")
        place = progress.names.index(name)
        is_known = seen.time > progress.found_at
        aim = progress.plan.target if is_known else progress.before
        target = resize_mix(seen, aim[place])
        if target == seen.deployment:
            return stay(seen, _describe_why_it_stays(progress.plan, seen, is_known))
        reason = progress.plan.reason
        chosen = Candidate(
            deployment=target,
            score=0.0,
            expectation=_expect(seen, target),
            verdict=f"Chosen: part of the parallelism {aim}",
        )
        present = Candidate(
            deployment=seen.deployment,
            score=1.0,
            expectation=expect_nothing(seen),
            verdict=f"Rejected: the application goes to the parallelism {aim}",
        )
        moved = abs(target.size - seen.deployment.size) / max(target.size, seen.deployment.size)
        return Decision(
            target=target,
            reason=f"Goes to {format_deployment(target, seen.model.node_types)}: {reason}",
            candidates=(chosen, present),
            expectation=chosen.expectation,
            # One scale for all operators: a part of a joint target is of no use alone.
            urgency=urgency_of_need(moved) if progress.grows else urgency_of_saving(moved),
        )


def _leave_room(seen: Observation, taken: Mapping[str, int]) -> Observation:
    """Return the observation with the room that is left in pools of which some is taken."""
    if not any(taken.values()):
        return seen
    types = tuple(
        each
        if each.pool_limit is None
        else replace(each, pool_limit=max(each.pool_limit - taken.get(each.pool, 0), 0))
        for each in seen.model.node_types
    )
    return replace(seen, model=replace(seen.model, node_types=types))


def _describe_why_it_stays(plan: Plan, seen: Observation, is_known: bool) -> str:
    if not is_known or plan.phase is not Phase.STEADY:
        return f"Stays with {seen.deployment.size} while the application is measured: {plan.reason}"
    return f"Stays: {plan.reason}"


def _expect(seen: Observation, target: Deployment) -> Expectation:
    true_rate = measure_true_rate(seen)
    return Expectation(
        response_time=float("nan"),
        utilisation=seen.rate / (true_rate * target.size) if true_rate > 0 else float("nan"),
        cost_per_hour=price_per_hour(target, seen.model.node_types),
    )
