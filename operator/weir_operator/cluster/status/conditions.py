"""The aspects of a StreamApp's state, as conditions of Kubernetes. Pure.

A condition's `lastTransitionTime` moves only when its `status` does, so an aspect is rendered
against what was written before. `reason` is one CamelCase word and never empty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from weir_operator.loop.bounds import Cause, Guard
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.loop import Trouble
from weir_operator.loop.tick import Tick, TuningView
from weir_operator.rescale.journal import RescaleJournal, Step
from weir_operator.streamapp.status import Condition, shorten

LONGEST_MESSAGE = 512
"""Characters of a message in the status, which must stay small."""

Truth = Literal["True", "False", "Unknown"]
AspectType = Literal[
    "Ready",
    "Deciding",
    "MetricsHealthy",
    "ModelFitted",
    "Tuned",
    "ObjectiveMet",
    "CostCapped",
    "Skewed",
    "Progressing",
    "Paused",
    "Degraded",
    "WithinLimits",
    "RecordsKept",
]
"""All that there are, in the order of the pages."""


@dataclass(frozen=True, slots=True)
class Aspect:
    """What is known of one aspect."""

    type: AspectType
    status: Truth
    reason: str
    message: str


def judge_metrics(tick: Tick | None) -> Aspect:
    """Return whether what is measured can be trusted."""
    if tick is None:
        return Aspect("MetricsHealthy", "Unknown", "NoSamples", "There is no measurement yet")
    holding = [problem for problem in tick.snapshot.problems if problem.kind.holds]
    if holding:
        return Aspect("MetricsHealthy", "False", str(holding[0].kind), holding[0].sentence)
    if tick.snapshot.app is None:
        why = tick.held or "Weir does not know yet where the tasks run"
        return Aspect("MetricsHealthy", "Unknown", "NotMeasured", f"There is no measurement: {why}")
    sentence = "All replicas report plausible samples"
    if tick.assumed:
        sentence = f"{sentence}. {tick.assumed}"
    return Aspect("MetricsHealthy", "True", "Complete", sentence)


def judge_objective(tick: Tick | None, settings: LoopSettings) -> Aspect:
    """Return whether the last interval kept the bound, and those of single sinks."""
    objective = settings.objective
    bound, statistic = objective.response_time, objective.statistic
    if tick is None or tick.violated is None:
        return Aspect(
            "ObjectiveMet", "Unknown", "NotMeasured", "The response time could not be measured"
        )
    measured = tick.snapshot.response(statistic)
    seen = "nothing came out" if math.isnan(measured) else f"{measured * 1000:.0f} ms"
    sentence = f"Response time ({statistic.word}) {seen}, bound {bound * 1000:.0f} ms"
    late = tick.snapshot.find_late_paths(objective.paths)
    for path in objective.paths:
        if path.sink in late:
            sentence = (
                f"{sentence}; at {path.sink} ({path.statistic.word}) "
                f"{late[path.sink] * 1000:.0f} ms, bound {path.response_time * 1000:.0f} ms"
            )
    if tick.infeasible:
        sentence = f"{sentence}; {tick.infeasible}"
    if tick.missed:
        sentence = f"{sentence}. {tick.missed}"
    if tick.violated:
        return Aspect("ObjectiveMet", "False", "Violated", sentence)
    return Aspect("ObjectiveMet", "True", "WithinBound", sentence)


def judge_cost(tick: Tick | None) -> Aspect:
    """Return whether the limit on cost keeps the job from what it needs."""
    if tick is None:
        return Aspect("CostCapped", "Unknown", "NoInterval", "No control interval has ended yet")
    if tick.capped:
        return Aspect("CostCapped", "True", "LimitReached", tick.capped)
    return Aspect("CostCapped", "False", "WithinLimit", "The limit on cost keeps nothing back")


def judge_skew(tick: Tick | None) -> Aspect:
    """Return whether records, work or waiting records are uneven over an operator's replicas."""
    if tick is None or not tick.observations:
        unknown = "the operators were not observed"
        why = "no control interval has ended yet" if tick is None else tick.held or unknown
        return Aspect("Skewed", "Unknown", "NotMeasured", f"There is no measurement: {why}")
    if tick.skewed:
        return Aspect("Skewed", "True", "UnevenLoad", ". ".join(tick.skewed.values()))
    sentence = (
        "No replica gets many more records or much more work than the others of its operator, and "
        "no partition or reader of a source lags"
    )
    return Aspect("Skewed", "False", "EvenShares", sentence)


def judge_model(tick: Tick | None, before: Aspect | None) -> Aspect:
    """Return whether the simulator is like the job, by the last fit.

    Where nothing is tuned, whether every operator's service time is known; a tick that held says
    nothing new of that.
    """
    if tick is not None and tick.tuning is not None:
        model = tick.tuning.model
        truth: Truth = "Unknown" if model.fitted is None else "True" if model.fitted else "False"
        return Aspect("ModelFitted", truth, model.reason, model.sentence)
    if tick is None or not tick.proposals:
        return before or Aspect("ModelFitted", "Unknown", "NoSamples", "There is no decision yet")
    unknown = sorted(
        name
        for name, proposal in tick.proposals.items()
        if math.isnan(proposal.observation.model.service_mean)
    )
    if unknown:
        return Aspect(
            "ModelFitted",
            "False",
            "ServiceTimeUnknown",
            f"The service time of {', '.join(unknown)} is not known",
        )
    sentence = (
        "The service time of every operator is known; without a tuner, Weir fits no simulator"
    )
    return Aspect("ModelFitted", "True", "ServiceTimesKnown", sentence)


def judge_ticks(tick: Tick | None, trouble: Trouble | None) -> Aspect:
    """Return whether control intervals succeed."""
    if trouble is not None:
        return Aspect("Deciding", "False", "TickFailed", trouble.sentence)
    if tick is None:
        return Aspect("Deciding", "Unknown", "NoInterval", "No control interval has ended yet")
    sentence = "Weir measures in every control interval, and decides unless a check prevents it"
    return Aspect("Deciding", "True", "IntervalsEnd", sentence)


def judge_tuning(view: TuningView) -> Aspect:
    """Return whether the tuner answers."""
    if view.failure:
        return Aspect("Tuned", "False", "TuningFailed", view.failure)
    if view.answered:
        found = view.expected or "Tuning found no better settings"
        return Aspect("Tuned", "True", "TunerAnswers", found)
    waits = f"There is no tuning yet: {view.model.sentence}"
    return Aspect("Tuned", "Unknown", "NothingTuned", waits)


def judge_progress(change: RescaleJournal | None) -> Aspect:
    """Return whether a change is under way."""
    if change is None or change.step.is_end:
        return Aspect("Progressing", "False", "Idle", "No change is in progress")
    message = f"{change.kind}: {change.reason}"
    if change.waits_for:
        message += f". Kubernetes has no room for {change.waits_for}"
    return Aspect("Progressing", "True", str(change.step), message)


def judge_pause(guards: Sequence[Guard]) -> Aspect:
    """Return whether scaling is paused, completely or in one direction."""
    if not guards:
        return Aspect("Paused", "False", "NotPaused", "Scaling is not paused")
    reasons = {
        Cause.PAUSE: "PausedByAnnotation",
        Cause.WINDOW: "BlockedPeriod",
        Cause.REFUSED: "ScalingRefused",
    }
    text = "; ".join(guard.reason for guard in guards)
    return Aspect("Paused", "True", reasons[guards[0].cause], text[:1].upper() + text[1:])


def judge_records(failure: str) -> Aspect:
    """Return whether decisions are recorded."""
    if failure:
        sentence = f"Weir decides, but cannot record its decisions: {failure}"
        return Aspect("RecordsKept", "False", "RecordsNotKept", sentence)
    return Aspect("RecordsKept", "True", "Recorded", "Weir records its decisions")


def judge_answers(refusal: str) -> Aspect:
    """Return whether everything that comes from the job is within the limits."""
    if refusal:
        return Aspect("WithinLimits", "False", "TooLarge", refusal)
    return Aspect("WithinLimits", "True", "AnswersRead", "Weir reads all answers about the job")


def judge_change(change: RescaleJournal | None, failing: str = "") -> Aspect:
    """Return whether the last change left the job other than it should be, or the job fails."""
    if failing:
        return Aspect("Degraded", "True", "JobFailing", failing)
    if change is None or not change.step.is_end:
        return Aspect(
            "Degraded", "False", "AsPlanned", "There is no known problem with the deployment"
        )
    if change.step is Step.DONE:
        sentence = f"The last change succeeded ({change.kind}: {change.reason})"
        return Aspect("Degraded", "False", "AsPlanned", sentence)
    failure = change.failure or change.reason
    return Aspect("Degraded", "True", str(change.step), failure)


def render(
    aspects: Iterable[Aspect], before: Sequence[Condition], *, generation: int, now: float
) -> tuple[Condition, ...]:
    """Return the conditions; their times are those of `before` where nothing changed."""
    known = {each.type: each for each in before}
    return tuple(
        Condition(
            type=aspect.type,
            status=aspect.status,
            reason=aspect.reason,
            message=shorten(aspect.message, LONGEST_MESSAGE),
            last_transition_time=known[aspect.type].last_transition_time
            if aspect.type in known and known[aspect.type].status == aspect.status
            else stamp(now),
            observed_generation=generation,
        )
        for aspect in aspects
    )


def stamp(now: float) -> str:
    """Return Unix seconds as Kubernetes writes a time."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
