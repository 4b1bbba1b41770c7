"""An explanation as people read it: one block per operator, in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weir_operator.controller.explanation import Explanation
from weir_operator.rescale.journal import RescaleJournal
from weir_policies.model.node_types import Deployment, NodeType


def render_explanations(app: str, explanations: Sequence[Explanation]) -> RenderableType:
    """Return one panel per operator."""
    return Group(*(_panel(app, each) for each in explanations))


def _panel(app: str, explanation: Explanation) -> Panel:
    record = explanation.record
    moment = datetime.fromtimestamp(record.time, UTC)
    parts: list[RenderableType] = [_seen(explanation), Text(), _candidates(explanation), Text()]
    parts += [_line("decided", record.decision.reason)]
    if record.verdict:
        parts.append(_line("verdict", record.verdict))
    if explanation.change is not None:
        parts.append(_line("change", describe_change(explanation.change)))
    parts.append(_line("happened", _happened(explanation)))
    title = f"{app} · {record.operator} · {moment:%Y-%m-%d %H:%M:%S} UTC · {record.policy}"
    return Panel(Group(*parts), title=title, title_align="left")


def _line(label: str, text: str) -> Table:
    line = Table.grid(padding=(0, 1))
    line.add_column(width=9, style="bold")
    line.add_column(overflow="fold")
    line.add_row(label, text)
    return line


def _seen(explanation: Explanation) -> RenderableType:
    seen = explanation.record.observation
    worst = max(seen.utilisation, default=math.nan)
    text = (
        f"{describe_deployment(seen.deployment, seen.model.node_types)}; "
        f"{_number(seen.rate)} records/s arrive, {_number(seen.backlog)} wait; "
        f"response time {_ms(seen.response_time)} of {_ms(seen.budget)} granted; "
        f"utilisation {_share(worst)} at the worst replica"
    )
    service = seen.model.service_mean
    believed = f"service time {_ms(service)} at speed 1, SCV {_number(seen.model.service_scv)}"
    weights = seen.weights
    weighed = (
        f"violations {_number(weights.violation)}, resources {_number(weights.resources)}, "
        f"restarts {_number(weights.reconfiguration)}"
    )
    lines = [_line("seen", text), _line("believed", believed), _line("weights", weighed)]
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
            ("> " if chosen else "  ") + describe_deployment(candidate.deployment, types),
            _number(candidate.score),
            _ms(candidate.expectation.response_time),
            _share(candidate.expectation.utilisation),
            f"{candidate.expectation.cost_per_hour:.3f}",
            candidate.verdict,
            style="bold" if chosen else "",
        )
    return table


def _happened(explanation: Explanation) -> str:
    if explanation.following is None:
        return "nothing has been seen since"
    next_seen = explanation.following.observation
    expected = explanation.record.decision.expectation.response_time
    surprise = explanation.surprise
    factor = "" if math.isnan(surprise) else f", {surprise:.2f} times the expectation"
    return (
        f"{describe_deployment(next_seen.deployment, next_seen.model.node_types)} at "
        f"{_number(next_seen.rate)} records/s: response time {_ms(next_seen.response_time)}, "
        f"expected {_ms(expected)}{factor}"
    )


def describe_deployment(deployment: Deployment, node_types: Sequence[NodeType]) -> str:
    """Return a deployment for people, such as `2 x small/250m + 1 x large/1`."""
    named = deployment.named(node_types)
    return " + ".join(f"{count} x {name}" for name, count in named.items()) or "nothing"


def describe_change(change: RescaleJournal) -> str:
    """Return how a change went, step by step with seconds since it was decided."""
    steps = ", ".join(
        f"{name} +{time - change.created:.1f} s" for name, time in change.times.items()
    )
    failure = f"; {change.failure}" if change.failure else ""
    return f"{change.id} {change.step}: {steps}{failure}"


def _ms(seconds: float) -> str:
    if math.isnan(seconds):
        return "?"
    return "no bound" if math.isinf(seconds) else f"{1000 * seconds:.0f} ms"


def _number(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.3g}"


def _share(value: float) -> str:
    return "?" if math.isnan(value) else f"{value:.0%}"
