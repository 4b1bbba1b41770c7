"""Reads the history of one job from a Prometheus server, page by page.

    names of metrics -> jobs -> the one that is meant -> its samples, some hours at a time

Only samples as they were scraped are asked for, not what a server computes of them. A page that the
server refuses, or that is more than is read of an answer, is halved. A server that answers in part
is refused, as everywhere.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import numpy as np

from weir_operator.errors import PermanentError
from weir_operator.flink.rest import FlinkRest
from weir_operator.limits import TooLargeError
from weir_operator.metrics.names import mangle
from weir_operator.metrics.prometheus_server import PrometheusServer, TooMuchAskedError
from weir_operator.metrics.source import Series
from weir_simulator.bill.job import PROMETHEUS
from weir_simulator.bill.metrics import (
    GIVEN,
    JOB_LABELS,
    QUANTILE,
    SUBSTITUTES,
    Role,
    promql_pattern,
    read_metric,
)
from weir_simulator.bill.slots import SlotTable
from weir_simulator.bill.topology import Edges

PAGE = 6 * 3600.0
"""Seconds of the first page: 320 series that are scraped twice a minute have 230,000 samples."""
SHORTEST_PAGE = 60.0
"""Seconds below which a page that is refused is not halved any more."""
MOST_LISTED = 20
"""Jobs that an error lists."""


async def read_history(
    server: PrometheusServer,
    job: str,
    matchers: Mapping[str, str],
    *,
    begin: float,
    end: float,
    slot: float,
    on_read: Callable[[float], None] = lambda read: None,
) -> tuple[SlotTable, str, str]:
    """Return what a server has of a job, with the job's name or id.

    Args:
        server: Whom to ask.
        job: Name or id of the job; empty where labels say it, or there is only one.
        matchers: Labels that all series must have besides.
        begin: Unix seconds.
        end: Unix seconds.
        slot: Seconds of a slot.
        on_read: Told after each page which part has been read.

    Returns:
        The slots, the job's name and the job's id. Name or id is empty, depending on which of them
        the server's label has; both are where `matchers` alone say which job it is.

    Raises:
        PermanentError: There is no such job, or several could be meant.
        TemporaryError: The server does not answer, refuses, or answers in part.
    """
    names = await server.label_values("__name__", _select(Role, matchers), begin, end)
    wanted = _wanted(names)
    if not wanted:
        given = " with these labels" if matchers else ""
        raise PermanentError(
            f"{server.host}: expected metrics of Flink's vertices{given} between --start and "
            f"--end, got none; correct them, or export Flink's metrics: {PROMETHEUS}"
        )
    chosen, label = await _choose(server, job, matchers, wanted, begin, end)
    if label:
        selector = _select_names(wanted, {**matchers, label: chosen}, within="")
    else:
        selector = _select_names(wanted, matchers, within=chosen)
    # Labels such as job_id hold ids; all others hold names.
    name, job_id = ("", chosen) if "id" in label.lower() else (chosen, "")
    table = SlotTable(begin=begin, end=end, slot=slot, job=name)
    async for low, high, series in _read_pages(server, selector, begin, end):
        for each in series:
            times = np.array(each.times)
            inside = (times >= low) & (times < high)
            if inside.any():
                table.add(each.name, each.labels, times[inside], np.array(each.values)[inside])
        on_read((high - begin) / (end - begin))
    return table, name, job_id


async def _read_pages(
    server: PrometheusServer, selector: str, begin: float, end: float
) -> AsyncIterator[tuple[float, float, Sequence[Series]]]:
    """Yield begin, end and series of each page; the server works on the next one meanwhile."""

    def ask(low: float) -> asyncio.Task[Sequence[Series]]:
        return asyncio.create_task(server.samples(selector, low, min(low + length, end)))

    low, length = begin, PAGE
    asked = ask(low)
    try:
        while low < end:
            try:
                series = await asked
            except (TooLargeError, TooMuchAskedError):
                if length <= SHORTEST_PAGE:
                    raise
                length /= 2
                asked = ask(low)
                continue
            high = min(low + length, end)
            if high < end:
                asked = ask(high)
            yield low, high, series
            low = high
    finally:
        asked.cancel()


def _wanted(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names to ask for: averages only where there is no counter."""
    labels = {"task_name": "any", "quantile": QUANTILE, "operator_id": "any"}
    roles = {name: metric.role for name in names if (metric := read_metric(name, labels))}
    there = set(roles.values())
    left_out = {average for counter, average in SUBSTITUTES.items() if counter in there}
    # What has neither of the two scopes in its name may be a vertex or an operator: flattened.
    return tuple(sorted(name for name, role in roles.items() if role not in left_out))


def _select(roles: Sequence[Role] | type[Role], matchers: Mapping[str, str]) -> str:
    rendered = [f"{key}={json.dumps(value)}" for key, value in matchers.items()]
    return "{" + ",".join([f"__name__=~{json.dumps(promql_pattern(roles))}", *rendered]) + "}"


def _select_names(names: Sequence[str], matchers: Mapping[str, str], *, within: str) -> str:
    kept = [each for each in names if not within or within in each]
    either = "|".join(map(re.escape, kept))
    rendered = [f"{key}={json.dumps(value)}" for key, value in matchers.items()]
    # The empty alternative matches the series that have no such label.
    rendered.append(f"quantile=~{json.dumps(f'|{re.escape(QUANTILE)}')}")
    return "{" + ",".join([f"__name__=~{json.dumps(either)}", *rendered]) + "}"


async def _choose(
    server: PrometheusServer,
    asked: str,
    matchers: Mapping[str, str],
    names: Sequence[str],
    begin: float,
    end: float,
) -> tuple[str, str]:
    """Return the job that is meant, and the label that names it; none where names have it in them.

    A name is looked for before an id.
    """
    found: dict[str, Sequence[str]] = {}
    for label in JOB_LABELS:
        values = await server.label_values(label, _select(GIVEN, matchers), begin, end)
        if values:
            found[label] = values
    for label, values in found.items():
        for value in (asked, mangle(asked)) if asked else ():
            if value in values:
                return value, label
    label, values = next(iter(found.items()), ("", ()))
    if not asked and len(values) == 1:
        return values[0], label
    if not asked and not found and matchers:
        return "", ""
    if asked and any(f"_{asked}_" in name for name in names):
        return asked, ""
    listed = ", ".join(values[:MOST_LISTED]) + (" and more" if len(values) > MOST_LISTED else "")
    raise PermanentError(
        f"--job: expected {f'one of {listed}' if listed else 'a name that metrics have in theirs'}"
        f", got {asked or 'none'}"
    )


async def read_edges(url: str, *, job: str) -> Edges:
    """Return the edges between the ids of the job's vertices.

    Args:
        url: Of Flink's REST interface.
        job: Name or id of the job; empty where there is one.

    Raises:
        PermanentError: There is no such job, or several.
        TemporaryError: Flink does not answer.
    """
    async with FlinkRest(url) as flink:
        jobs = [each for each in await flink.jobs() if not each.state.is_over]
        found = [each for each in jobs if job in ("", each.name, each.id)]
        details = await flink.job(found[0].id) if len(found) == 1 else None
    if details is None:
        listed = ", ".join(f"{each.name} ({each.id})" for each in jobs) or "none that runs"
        raise PermanentError(
            f"--flink: expected one running job {job!r}, got {listed}; correct the address, or "
            "leave --flink out"
        )
    return Edges(pairs=tuple((edge.source, edge.target) for edge in details.edges))
