"""The text of `weir explain`, for the terminal. Pure.

Shows what a decision record, its change and the next measurement say together, what tunings set,
and how long changes waited for TaskManagers. While a change waits, the old job runs on, and an
interval may have exceeded the bound in any case: what is counted is what an earlier start could
have saved at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weir_operator.errors import PermanentError
from weir_operator.loop.record import DecisionRecord, JobTick, RecordStore
from weir_operator.metrics.keys import KeyReport
from weir_operator.reporting.keys_view import describe_shares, draw_shares
from weir_operator.rescale.journal import Kind, RescaleJournal, Step
from weir_operator.tuning.store import Standing, TuningState, Version
from weir_policies.kernels.wording import format_deployment
from weir_simulator.reports import wording


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """One decision, from its measurements to its result."""

    record: DecisionRecord
    change: RescaleJournal | None
    """The change that it was part of, as far as that came."""
    tuning: Version | None = None
    """The tuning that its weights and budget come from; `None` where nothing was tuned."""
    keys: KeyReport | None = None
    """What was known of the operator's keys; `None` where they are not counted."""
    following: DecisionRecord | None
    """The same operator's next decision, whose observation is what happened; `None` as yet."""

    @property
    def surprise(self) -> float:
        """Measured over expected response time; NaN where either is unknown."""
        if self.following is None:
            return math.nan
        expected = self.record.decision.expectation.response_time
        return self.following.observation.response_time / expected if expected else math.nan


def explain_at(
    records: RecordStore,
    *,
    until: float,
    operator: str | None,
    tunings: TuningState | None = None,
) -> tuple[Explanation, ...]:
    """Return the newest decision of each operator, or of the one that is named, up to a Unix time.

    Raises:
        PermanentError: There is none, or the operator is not known.
    """
    found = records.decisions(until=until, operator=operator)
    if not found:
        known = [record.operator for record in records.decisions()]
        what = f" of operator {operator!r} (known: {', '.join(known)})" if operator else ""
        if not known:
            raise PermanentError(
                "Expected a decision, found none: let the job run for a control interval"
            )
        if operator is not None and operator not in known:
            raise PermanentError(f"Expected a decision{what}, found none: name another --operator")
        raise PermanentError(
            f"Expected a decision{what} before that time, found none: choose a later --at"
        )
    return tuple(
        Explanation(
            record=record,
            change=records.change(record.change) if record.change else None,
            tuning=_find_tuning(record, tunings),
            keys=_find_keys(records, record),
            following=records.following(record),
        )
        for record in found
    )


def _find_keys(records: RecordStore, record: DecisionRecord) -> KeyReport | None:
    ticks = records.ticks(since=math.nextafter(record.time, -math.inf), until=record.time)
    return ticks[0].keys.get(record.operator) if ticks else None


def _find_tuning(record: DecisionRecord, tunings: TuningState | None) -> Version | None:
    """Return the version whose weights the decision was taken with, the last one before it."""
    taken = [
        each
        for each in (tunings.versions if tunings else ())
        if each.since <= record.time and each.point.weights == record.observation.weights
    ]
    return taken[-1] if taken else None


_PLAIN = TypeAdapter(Explanation)


def to_plain(explanation: Explanation) -> object:
    """Return the explanation as JSON values; what is unknown is null."""
    return _PLAIN.dump_python(explanation, mode="json")


def render_explanations(app: str, explanations: Sequence[Explanation]) -> RenderableType:
    """Return one panel per operator."""
    return Group(*(_panel(app, each) for each in explanations))


def _panel(app: str, explanation: Explanation) -> Panel:
    record = explanation.record
    moment = datetime.fromtimestamp(record.time, UTC)
    parts: list[RenderableType] = [_seen(explanation), Text(), _candidates(explanation), Text()]
    parts += [_line("decision", record.decision.reason)]
    if record.verdict:
        parts.append(_line("verdict", record.verdict))
    if explanation.change is not None:
        parts.append(_line("change", _describe_change(explanation.change)))
    parts.append(_line("result", _happened(explanation)))
    title = f"{app} · {record.operator} · {moment:%Y-%m-%d %H:%M:%S} UTC · {record.policy}"
    return Panel(Group(*parts), title=title, title_align="left")


def _line(label: str, text: RenderableType) -> Table:
    line = Table.grid(padding=(0, 1))
    line.add_column(width=9, style="bold")
    line.add_column(overflow="fold")
    # As it is: a key's text, or a reason, may have brackets.
    line.add_row(label, Text(text) if isinstance(text, str) else text)
    return line


def _seen(explanation: Explanation) -> RenderableType:
    seen = explanation.record.observation
    worst = max(seen.utilisation, default=math.nan)
    text = (
        f"{format_deployment(seen.deployment, seen.model.node_types)}; "
        f"{_number(seen.rate)} records/s arrive, {_number(seen.backlog)} wait; "
        f"response time {_ms(seen.response_time)} of a budget of "
        f"{_ms(seen.budget)}; the busiest replica is {_share(worst)} busy"
    )
    service = seen.model.service_mean
    believed = f"service time {_ms(service)} at speed 1, SCV {_number(seen.model.service_scv)}"
    weights = seen.weights
    weighed = (
        f"violations {_number(weights.violation)}, resources {_number(weights.resources)}, "
        f"restarts {_number(weights.reconfiguration)}"
    )
    lines = [_line("measured", text), _line("model", believed), _line("weights", weighed)]
    if explanation.keys is not None:
        lines.append(_line("keys", describe_shares(explanation.keys)))
        if explanation.record.observation.model.is_skewed:
            lines.append(_line("", draw_shares(explanation.keys)))
    if explanation.tuning is not None:
        version = explanation.tuning
        lines.append(_line("tuned", f"version {version.number}: {version.sentence}"))
    return Group(*lines)


def _candidates(explanation: Explanation) -> Table:
    types = explanation.record.observation.model.node_types
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("candidate")
    for heading in ("score", "response", "busy", "per hour"):
        table.add_column(heading, justify="right")
    table.add_column("why", overflow="fold")
    decision = explanation.record.decision
    for candidate in decision.candidates:
        chosen = candidate.deployment == decision.target
        table.add_row(
            ("> " if chosen else "  ") + format_deployment(candidate.deployment, types),
            _number(candidate.score),
            _ms(candidate.expectation.response_time),
            _share(candidate.expectation.utilisation),
            f"{candidate.expectation.cost_per_hour:.3f}",
            Text(candidate.verdict),
            style="bold" if chosen else "",
        )
    return table


def _happened(explanation: Explanation) -> str:
    if explanation.following is None:
        return "there is no later measurement"
    next_seen = explanation.following.observation
    expected = explanation.record.decision.expectation.response_time
    surprise = explanation.surprise
    factor = "" if math.isnan(surprise) else f", {surprise:.2f} times the expectation"
    return (
        f"{format_deployment(next_seen.deployment, next_seen.model.node_types)} at "
        f"{_number(next_seen.rate)} records/s: response time {_ms(next_seen.response_time)}, "
        f"expected {_ms(expected)}{factor}"
    )


def _describe_change(change: RescaleJournal) -> str:
    """Return how a change went, step by step with seconds since it was decided."""
    steps = ", ".join(
        f"{name} +{time - change.created:.1f} s" for name, time in change.times.items()
    )
    failure = f"; {change.failure}" if change.failure else ""
    return f"{change.id} {change.step}: {steps}{failure}"


def _ms(seconds: float) -> str:
    if math.isnan(seconds):
        return "?"
    if math.isinf(seconds):
        return "unlimited"
    return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{1000 * seconds:.3g} ms"


def _number(value: float) -> str:
    if math.isnan(value):
        return "?"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _share(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.0%}"


def render_tunings(app: str, versions: Sequence[Version]) -> Panel:
    """Return a panel of versions, which are given with the newest first."""
    lines = Table.grid(padding=(0, 1))
    lines.add_column(width=9, style="bold")
    lines.add_column(overflow="fold")
    for version in versions:
        moment = datetime.fromtimestamp(version.since, UTC)
        lines.add_row("tuning", f"version {version.number} of {moment:%Y-%m-%d %H:%M} UTC")
        weights = version.point.weights.normalised()
        parts_of_one = (
            f"violations {weights.violation:.2f}, resources {weights.resources:.2f}, "
            f"restarts {weights.reconfiguration:.2f}"
        )
        lines.add_row("weights", parts_of_one)
        budgets = (f"{name} {1000 * each:.0f} ms" for name, each in version.budgets.items())
        lines.add_row("budgets", ", ".join(budgets))
        lines.add_row("effect", version.sentence)
        lines.add_row("result", _describe_standing(version))
        lines.add_row()
    return Panel(lines, title=f"{app} · tunings, the newest first", title_align="left")


def _describe_standing(version: Version) -> str:
    """Return whether measurements have confirmed a version, and why not where it has not."""
    trial = version.trial
    if version.standing is Standing.ON_TRIAL:
        beyond = (
            f"; {trial.beyond} more do not count, because more arrived than the tuning has seen"
            if trial.beyond
            else ""
        )
        return (
            f"on trial, interval {trial.intervals} of {version.forecast.intervals}, "
            f"{trial.late} of them over the bound{beyond}"
        )
    words = {
        Standing.KEPT: "kept",
        Standing.ROLLED_BACK: "rolled back",
        Standing.REPLACED: "replaced by a later one",
        Standing.OVERGROWN: "kept without a verdict",
    }
    return words[version.standing] + (f": {version.reason}" if version.reason else "")


def describe_waits(changes: Iterable[RescaleJournal], ticks: Iterable[JobTick]) -> str:
    """Return how long changes waited, for people; empty where none started TaskManagers."""
    waits = [
        (change.times[Step.START], change.times[Step.STOP])
        for change in changes
        if change.kind is Kind.RESCALE and change.started and Step.STOP in change.times
    ]
    if not waits:
        return ""
    late = sum(
        tick.violated is True
        and any(begin < tick.time and tick.time - tick.seconds < end for begin, end in waits)
        for tick in ticks
    )
    waited = (
        f"{wording.counted(len(waits), 'change')} waited"
        f" {wording.seconds(sum(end - begin for begin, end in waits))} for new TaskManagers"
    )
    if not late:
        return f"{waited}, and no interval exceeded the bound meanwhile."
    over = f"{wording.counted(late, 'interval')} over the bound"
    return f"{waited}. An earlier start would have saved at most {over}."
