"""The part of a StreamApp's status that people read: conditions, columns, operators. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from weir_operator.cluster.status.conditions import (
    Aspect,
    judge_answers,
    judge_change,
    judge_cost,
    judge_metrics,
    judge_model,
    judge_objective,
    judge_pause,
    judge_progress,
    judge_records,
    judge_skew,
    judge_ticks,
    judge_tuning,
    render,
    stamp,
)
from weir_operator.loop.bounds import Cause, Guard, cost_per_hour, prices
from weir_operator.loop.directives import LoopSettings
from weir_operator.loop.loop import Loop, Trouble
from weir_operator.loop.record import DecisionRecord
from weir_operator.loop.tick import Tick, TuningView
from weir_operator.rescale.journal import RescaleJournal, summarise_change
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.models import Mode, StreamApp
from weir_operator.streamapp.status import (
    MOST_OPERATORS,
    DecisionStatus,
    OperatorStatus,
    Outcome,
    StreamAppStatus,
    TuningStatus,
    shorten,
)
from weir_operator.wiring.assembly import loop_settings

DAY = 86_400.0
NOT_TO_RUN = frozenset({"Advising", "Deleting", "FinalSavepointFailed", "JobFinished"})
"""Reasons of `Ready` by which no job of Weir's is to run."""
LONGEST_REASON = 256
"""Characters of an operator's last decision: there may be a hundred operators."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """What is known of a StreamApp now."""

    generation: int
    ready: Aspect
    mistake: str = ""
    """Why the spec cannot be right; the previous one is used for the job."""
    settings: LoopSettings | None = None
    """`None` where the spec was never right."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Currency per replica and hour, by node type."""
    deployments: Deployments = field(default_factory=dict)
    """What was applied."""
    tick: Tick | None = None
    """The last one."""
    troubles: Mapping[Loop, Trouble] = field(default_factory=dict)
    """What is wrong with the loops now."""
    model: Aspect | None = None
    """What the last tick that decided knew of the operators' models."""
    suspended: str | None = None
    """Where the state of a job lies that is stopped on purpose; `None` where it is not."""
    mode: Mode = Mode.AUTO
    guards: tuple[Guard, ...] = ()
    """Pauses and blocked periods that hold now."""
    change: RescaleJournal | None = None
    """The change under way, or the last one."""
    last_action: str = ""
    decisions: Mapping[str, DecisionRecord] = field(default_factory=dict)
    """The last of each operator."""
    restarts: tuple[float, ...] = ()
    """Unix times of the restarts that scaling caused, oldest first."""
    refusal: str = ""
    """What about the job is too large to be read; empty where nothing is."""
    unrecorded: str = ""
    """Why decisions are not recorded; empty where they are."""
    advice: str = ""
    """What is advised for a job that somebody else runs, in a sentence."""


def first_facts(generation: int, app: StreamApp | None) -> Facts:
    """Return what a spec says, before anything was seen of the job; `None` was never right."""
    ready = Aspect("Ready", "Unknown", "Reconciling", "Weir is checking the StreamApp")
    if app is None:
        return Facts(generation=generation, ready=ready)
    return Facts(
        generation=generation, ready=ready, settings=loop_settings(app), prices=prices(app)
    )


def note_tick(facts: Facts, tick: Tick) -> Facts:
    """Store what a tick measured and decided."""
    return replace(
        facts,
        tick=replace(tick, proposals={}),  # they live on in `decisions`, as far as they are shown
        deployments=dict(tick.deployments),
        decisions={n: each for n, each in facts.decisions.items() if n in tick.deployments},
        guards=tick.asked_guards,
        model=judge_model(tick, facts.model),
    )


def note_trouble(facts: Facts, trouble: Trouble) -> Facts:
    """Store what is wrong with a loop, or that it is over."""
    others = {loop: each for loop, each in facts.troubles.items() if loop is not trouble.loop}
    now = {trouble.loop: trouble} if trouble.sentence else {}
    return replace(facts, troubles={**others, **now})


def note_change(facts: Facts, change: RescaleJournal) -> Facts:
    """Store the progress of a change."""
    if not change.step.is_end:
        return replace(facts, change=change)
    return replace(facts, change=change, last_action=summarise_change(change))


def note_decisions(facts: Facts, decisions: Iterable[DecisionRecord]) -> Facts:
    """Store what was decided, without candidates: no status shows them, and the records do."""
    shown = {
        each.operator: replace(each, decision=replace(each.decision, candidates=()))
        for each in decisions
    }
    return replace(facts, decisions={**facts.decisions, **shown})


def render_status(facts: Facts, before: StreamAppStatus, now: float) -> StreamAppStatus:
    """Return the status without what the status store keeps."""
    tick, settings = facts.tick, facts.settings
    aspects = [_ready(facts), judge_ticks(tick, facts.troubles.get(Loop.TICK))]
    aspects += [judge_metrics(tick), judge_model(None, facts.model)]
    if tick is not None and tick.tuning is not None:
        aspects.append(judge_tuning(tick.tuning))
    if settings is not None:
        aspects.append(judge_objective(tick, settings))
    if settings is not None and settings.max_cost is not None:
        aspects.append(judge_cost(tick))
    aspects.append(judge_skew(tick))
    aspects += [judge_progress(facts.change), judge_pause(facts.guards)]
    aspects.append(judge_change(facts.change, "" if tick is None else tick.failing))
    aspects += [judge_answers(facts.refusal), judge_records(facts.unrecorded)]
    figures = figures_of(facts)
    cost = figures["cost"]
    return StreamAppStatus(
        observed_generation=facts.generation,
        conditions=render(aspects, before.conditions, generation=facts.generation, now=now),
        replicas=sum(sum(counts.values()) for counts in facts.deployments.values()),
        rate=format_per_second(figures["rate"]),
        response_time=format_seconds(figures["response"]),
        objective=None
        if settings is None
        else f"{format_seconds(settings.objective.response_time)} "
        f"{settings.objective.statistic.word}",
        cost_per_hour=None if math.isnan(cost) else f"{cost:.4g}",
        last_action=facts.last_action or before.last_action,
        restarts_last_day=sum(time >= now - DAY for time in facts.restarts),
        window=next((g.name for g in facts.guards if g.cause is Cause.WINDOW), None),
        advice=_advise(facts),
        tuning=_tuning(tick.tuning) if tick and tick.tuning else before.tuning,
        operators=tuple(
            _operator(facts, name) for name in islice(facts.deployments, MOST_OPERATORS)
        ),
    )


def _ready(facts: Facts) -> Aspect:
    if facts.mistake:
        sentence = f"{facts.mistake}; if the job is running, it continues unchanged"
        return Aspect("Ready", "False", "InvalidSpec", sentence)
    if facts.suspended is not None:
        state = f"its state is in {facts.suspended}" if facts.suspended else "it has no state yet"
        sentence = f"The job is suspended; {state}"
        return Aspect("Ready", "False", "Suspended", sentence)
    look, tick = facts.troubles.get(Loop.HEALTH_CHECK), facts.troubles.get(Loop.TICK)
    if facts.ready.status == "True" and look is not None:
        return Aspect("Ready", "False", "JobDown", look.sentence)
    if facts.ready.status == "True" and tick is not None and tick.unexpected:
        return Aspect("Ready", "False", "UnexpectedError", tick.sentence)
    return facts.ready


def job_runs(facts: Facts) -> float:
    """Return 1 if the job runs, 0 if it should and does not, NaN otherwise."""
    if facts.suspended is not None or facts.ready.reason in NOT_TO_RUN:
        return math.nan
    begins = facts.change is not None and not facts.change.step.is_end and facts.change.kind.begins
    if begins or Loop.HEALTH_CHECK in facts.troubles or (facts.mistake and facts.settings is None):
        return 0.0
    return {"True": 1.0, "False": 0.0}.get(facts.ready.status, math.nan)


def figures_of(facts: Facts) -> dict[str, float]:
    """Return the numbers that the status shows: records/s, seconds, currency per hour."""
    tick, settings = facts.tick, facts.settings
    figures = {"rate": math.nan, "response": math.nan, "cost": math.nan}
    if facts.suspended is not None:
        return figures  # what was measured last is of a job that has ended
    if settings is not None and facts.deployments:
        figures["cost"] = cost_per_hour(
            facts.deployments, facts.prices, job_manager=settings.job_manager_price
        )
    if tick is None or settings is None:
        return figures
    figures["response"] = tick.snapshot.response(settings.objective.statistic)
    if tick.snapshot.app is not None:
        operators = tick.snapshot.app.operators
        if tick.snapshot.dataflow is not None:
            figures["rate"] = sum(operators[n].arrival_rate for n in tick.snapshot.dataflow.sources)
        figures |= {f"rate {name}": each.arrival_rate for name, each in operators.items()}
        figures |= {f"response {name}": each.response_time for name, each in operators.items()}
    return figures


def _tuning(view: TuningView) -> TuningStatus:
    weights = view.tuned.weights
    return TuningStatus(
        version=view.version,
        since=stamp(view.since) if view.since else None,
        violations=f"{weights.violation:.3g}",
        resources=f"{weights.resources:.3g}",
        reconfigurations=f"{weights.reconfiguration:.3g}",
        message=shorten(view.expected) or None,
    )


def _advise(facts: Facts) -> str | None:
    if facts.mode is not Mode.ADVISE:
        return None
    bill = facts.tick.bill if facts.tick else None
    sentences = (facts.advice, bill.sentence if bill else "")
    return shorten(". ".join(each for each in sentences if each)) or None


def _operator(facts: Facts, name: str) -> OperatorStatus:
    tick, record = facts.tick, facts.decisions.get(name)
    measured = tick.snapshot.app.operators.get(name) if tick and tick.snapshot.app else None
    budget = tick.budgets.get(name, math.nan) if tick else math.nan
    deployment = facts.deployments[name]
    return OperatorStatus(
        name=name,
        replicas=sum(deployment.values()),
        deployment=dict(deployment),
        target=record.decision.target.named(record.observation.model.node_types)
        if record
        else None,
        rate=format_per_second(measured.arrival_rate) if measured else None,
        response_time=format_seconds(measured.response_time) if measured else None,
        budget=format_seconds(budget),
        policy=record.policy if record else None,
        decision=_decision(facts, record) if record else None,
    )


def _decision(facts: Facts, record: DecisionRecord) -> DecisionStatus:
    tick = facts.tick
    stays = record.decision.target == record.observation.deployment
    reason = record.decision.reason
    if record.verdict:
        reason += f"; {record.verdict}"
    time = record.time
    if tick is not None and tick.held and tick.snapshot.now > record.time:
        outcome, reason, time = Outcome.HELD, tick.held, tick.snapshot.now
    elif record.change is not None:
        outcome = Outcome.GRANTED
    elif stays:
        outcome = Outcome.STAYED
    else:
        outcome = Outcome.ADVISED if facts.mode is Mode.ADVISE else Outcome.DENIED
    return DecisionStatus(
        id=record.id, time=stamp(time), outcome=outcome, message=shorten(reason, LONGEST_REASON)
    )


def format_per_second(rate: float) -> str | None:
    """Return a rate such as `120/s`; `None` where it is not known."""
    return f"{_digits(rate)}/s" if math.isfinite(rate) else None


def format_seconds(seconds: float) -> str | None:
    """Return a time such as `45ms` or `1.2s`; `None` where it is not known."""
    if not math.isfinite(seconds):
        return None
    return f"{_digits(seconds)}s" if seconds >= 1 else f"{_digits(seconds * 1000)}ms"


def _digits(value: float) -> str:
    """Return three significant digits without an exponent."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(places, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
