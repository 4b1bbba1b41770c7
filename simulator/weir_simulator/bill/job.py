"""The history of a job, slot by slot, out of its metrics: rates, busy time, replicas, restarts.

    series -> the job that is meant -> its vertices -> slots of each

Records that reach a vertex are known where nothing blocked the sources; while a source is blocked,
they are what it took in and what its backlog grew by, or unknown.

What the metrics cannot show is said in `notes`, one sentence each.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from weir_policies.model.arrays import Counts, Floats
from weir_simulator.bill.metrics import GIVEN, SUBSTITUTES, Role
from weir_simulator.bill.slots import LONGEST_STEP, SlotTable, Track, UnusableMetricsError
from weir_simulator.bill.topology import Edges, find_edges, is_source
from weir_simulator.naming import plain_name

Flags = NDArray[np.bool_]

LONGEST_NAME = 63
"""Characters of an operator's name."""
LIVE = 0.5
"""Part of a slot that must be covered for its rates to be known."""
BLOCKED = 0.1
"""Share of time in which a source is back-pressured from which on records are taken to wait where
nothing counts them."""
MOST_BLOCKED = 0.9
"""Part of the slots in which that may be so."""
SHORTEST = 1800.0
"""Seconds of metrics below which nothing is said."""
LONGEST_STOP = 900.0
"""Seconds without metrics, followed by another run, that are taken for the stop of a restart."""
TOGETHER = 120.0
"""Seconds within which the ends of a job's tasks are one restart."""
BESIDE = 300.0
"""Seconds for which two runs overlap that are two jobs."""
PROMETHEUS = (
    "metrics.reporter.prom.factory.class: "
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
)
"""The line of Flink's configuration that exports its metrics."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vertex:
    """A vertex of the job, slot by slot; arrays have the shape `(slots,)`."""

    name: str
    parallelism: Counts
    """Subtasks; 0 where none reported."""
    complete: Flags
    """Whether all of them reported."""
    taken: Floats
    """Records/s that it took in; NaN where that is not known, as in the arrays below."""
    given: Floats
    busy: Floats
    """Subtasks' worth of busy time, between 0 and the parallelism."""
    busiest: Floats
    """Busy share of the busiest subtask."""
    blocked: Floats
    """Share of time in which its subtasks were back-pressured, mean."""
    pending: Floats
    """Records that wait outside, of a source that says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobHistory:
    """What the metrics say of one job."""

    name: str
    begin: float
    """Unix seconds of the first slot."""
    slot: float
    vertices: tuple[Vertex, ...]
    edges: Edges
    task_managers: Counts
    """How many reported, by slot."""
    slots_each: int
    """Slots of a TaskManager that are in use at the end."""
    restarts: tuple[tuple[float, float], ...]
    """Unix seconds at which tasks ran again after a restart, and for how long none had reported."""
    latency: Floats
    """Seconds from source to sink by latency markers, median; NaN without."""
    notes: tuple[str, ...] = ()

    @property
    def times(self) -> Floats:
        """Unix seconds at which the slots end."""
        slots = np.arange(1, self.task_managers.size + 1, dtype=np.float64)
        ends: Floats = self.begin + self.slot * slots
        return ends

    @property
    def sources(self) -> tuple[Vertex, ...]:
        """Vertices that nothing flows into."""
        fed = {target for _, target in self.edges.pairs}
        return tuple(each for each in self.vertices if each.name not in fed)

    @property
    def stopped(self) -> Flags:
        """Slots in which a restart stopped the job, wholly or in part."""
        flags = np.zeros(self.task_managers.size, dtype=bool)
        for time, gap in self.restarts:
            if gap <= LONGEST_STOP:
                first = int((time - gap - self.begin) // self.slot)
                flags[max(first, 0) : int((time - self.begin) // self.slot) + 1] = True
        return flags

    @property
    def known(self) -> Flags:
        """Slots in which all vertices reported wholly."""
        flags: Flags = np.all([each.complete for each in self.vertices], axis=0)
        return flags

    @property
    def held_back(self) -> Flags:
        """Slots in which a source was back-pressured."""
        flags: Flags = np.any([each.blocked > BLOCKED for each in self.sources], axis=0)
        return flags


def derive_job(
    table: SlotTable, *, job: str = "", job_id: str = "", edges: Edges | None = None
) -> JobHistory:
    """Return the history of one job.

    Args:
        table: Everything that was read.
        job: Its name, or the id of one run; empty where there is one.
        job_id: Its id, of one run; empty takes all runs of the name.
        edges: Between ids of vertices, where Flink's plan could be asked.

    Raises:
        UnusableMetricsError: It is not clear which job is meant, a metric is missing, there is too
            little of it, or its sources were blocked nearly all the time.
    """
    tracks = _choose_job(table, job, job_id)
    notes: list[str] = []
    subtasks = _by_subtask(table, tracks, notes)
    names = _name_vertices(table, tracks)
    now, since = _find_newest(tracks, names, notes)
    vertices = [_read_vertex(table, names[v], subtasks, v, since) for v in now]
    live = np.flatnonzero(np.any([each.parallelism > 0 for each in vertices], axis=0))
    if not live.size or live.size * table.slot < SHORTEST:
        raise UnusableMetricsError(
            f"Expected at least {SHORTEST / 60:.0f} minutes of metrics, got "
            f"{live.size * table.slot / 60:.0f}; wait for more, or ask for an earlier time "
            "with --start and --end"
        )
    first, last = int(live[0]), int(live[-1]) + 1
    cut = [_cut(each, first, last) for each in vertices]
    joined = _join(cut, edges, names, notes)
    over = max(track.last for track in tracks)
    history = JobHistory(
        name=job or next((t.metric.job for t in tracks if t.metric.job), "") or job_id,
        begin=table.begin + first * table.slot,
        slot=table.slot,
        vertices=tuple(cut),
        edges=joined,
        task_managers=_count_managers(table, tracks)[first:last],
        slots_each=_slots_each(tracks, over),
        restarts=tuple(
            each for each in _find_restarts(tracks) if each[0] > table.begin + first * table.slot
        ),
        latency=_read_latency(table, {t.metric.job_id for t in tracks})[first:last],
        notes=tuple(notes),
    )
    _refuse_blocked(history)
    return _with_notes(history)


def _find_newest(
    tracks: Sequence[Track], names: Mapping[str, str], notes: list[str]
) -> tuple[list[str], float]:
    """Return the vertices that the job has at the end, and since when it has only these."""
    starts = {v: min(t.first for t in _of(tracks, v)) for v in names}
    ends = {v: max(t.last for t in _of(tracks, v)) for v in names}
    gone = [v for v in names if ends[v] < max(ends.values()) - LONGEST_STOP]
    now = [v for v in names if v not in gone]
    if not gone:
        return now, -math.inf
    listed = ", ".join(sorted(names[v] for v in gone))
    notes.append(f"The job had other vertices before ({listed}); only what came after is used")
    return now, max(*(ends[v] for v in gone), *(starts[v] for v in now))


def _join(
    vertices: Sequence[Vertex], edges: Edges | None, names: Mapping[str, str], notes: list[str]
) -> Edges:
    """Return the edges: those of the plan, or those that the rates suggest."""
    if edges is not None:
        return _named_edges(edges, names)
    known = np.all([each.complete for each in vertices], axis=0)
    found = find_edges(
        [each.name for each in vertices],
        np.array([np.where(known, each.taken, np.nan) for each in vertices]),
        np.array([np.where(known, each.given, np.nan) for each in vertices]),
    )
    if found.guessed:
        listed = ", ".join(f"{a} → {b}" for a, b in found.guessed)
        notes.append(
            f"Which vertex feeds which is guessed from rates ({listed}); name Flink's REST address "
            "with --flink to read it from the plan"
        )
    return found


def _choose_job(table: SlotTable, job: str, job_id: str) -> list[Track]:
    every = [t for t in table.tracks(*Role) if t.metric.role is not Role.LATENCY]
    if not every:
        lacking = sorted(table.unread)
        raise UnusableMetricsError(
            "Expected metrics of Flink's vertices (numRecordsIn with a label such as task_name), "
            f"got {'series without such a label: ' + ', '.join(lacking[:3]) if lacking else 'none'}"
            + (
                "; name the job with --job, so that names with the scope in them can be read"
                if lacking
                else f"; correct the address or the time, or export them: {PROMETHEUS}"
            )
        )
    names = sorted({t.metric.job for t in every})
    if job in {t.metric.job_id for t in every} - {*names, ""}:
        job, job_id = "", job
    chosen = [
        t
        for t in every
        if (not job or t.metric.job in (job, _mangle(job))) and job_id in ("", t.metric.job_id)
    ]
    if not chosen or (not job and not job_id and len(names) > 1):
        raise UnusableMetricsError(
            f"--job: expected one of {', '.join(names)}, got {job or job_id or 'none'}"
        )
    _end_dead(table, chosen)
    spans: dict[str, list[float]] = {}
    for track in chosen:
        span = spans.setdefault(track.metric.job_id, [track.first, track.last])
        span[0], span[1] = min(span[0], track.first), max(span[1], track.last)
    ordered = sorted(spans.items(), key=lambda item: item[1])
    for (_, one), (_, other) in itertools.pairwise(ordered):
        if one[1] - other[0] > BESIDE:
            listed = ", ".join(each for each, _ in ordered)
            raise UnusableMetricsError(
                f"--job: expected one job, got {len(ordered)} of the name {job!r} at the same "
                f"time, with the ids {listed}; name one by its id, or a label that tells them "
                "apart with --match"
            )
    return chosen


def _end_dead(table: SlotTable, tracks: Sequence[Track]) -> None:
    """End series of TaskManagers that are gone, whose last values a gateway repeats for ever.

    Gone is one none of whose values changes any more although others began after that.
    """
    changed: dict[str, float] = defaultdict(float)
    for track in tracks:
        manager = track.metric.task_manager
        changed[manager] = max(changed[manager], track.changed)
    newest = max(track.first for track in tracks)
    for track in tracks:
        end = changed[track.metric.task_manager]
        if newest > end - TOGETHER and track.last > end + LONGEST_STEP:
            table.cut(track, end)


def _mangle(name: str) -> str:
    """Return a label's value as Flink's Prometheus reporter writes it."""
    return re.sub(r"[^a-zA-Z0-9:_]", "_", name)


def _of(tracks: Sequence[Track], vertex: str) -> list[Track]:
    return [t for t in tracks if t.metric.vertex == vertex]


Subtasks = Mapping[tuple[Role, str], Mapping[int, tuple[Floats, Floats]]]
"""Amounts and covered seconds by role, vertex and subtask."""


def _by_subtask(table: SlotTable, tracks: Sequence[Track], notes: list[str]) -> Subtasks:
    """Return the joined series, counters where there are some and averages where there are none."""
    grouped: dict[tuple[Role, str, int, str], list[Track]] = defaultdict(list)
    for track in tracks:
        metric = track.metric
        grouped[metric.role, metric.vertex, metric.subtask, metric.part].append(track)
    found: dict[tuple[Role, str], dict[int, tuple[Floats, Floats]]] = defaultdict(dict)
    # Of the operators in a chain, the source is the one that takes in what the vertex does.
    sources_last = sorted(grouped.items(), key=lambda item: is_source(item[0][3]))
    for (role, vertex, subtask, _), listed in sources_last:
        amounts, covered = table.join(listed)
        before = found[role, vertex].get(subtask)
        if before is not None and role is Role.PENDING:
            amounts = amounts + before[0]  # two sources in one chain
        found[role, vertex][subtask] = (amounts, covered)
    averages = set()
    for counter, average in SUBSTITUTES.items():
        for vertex in {v for r, v in list(found) if r is average}:
            if (counter, vertex) not in found:
                # Shares of milliseconds per second add up to milliseconds, rates to records.
                found[counter, vertex] = found[average, vertex]
                averages.add(average.value)
    if averages:
        notes.append(
            f"{', '.join(sorted(averages))} are averages over a minute: short peaks are flattened"
        )
    for role, what in ((Role.BUSY, "busy time"), (Role.RECORDS_OUT, "records")):
        if not any(r is role for r, _ in found):
            raise UnusableMetricsError(
                f"Expected the metric {role.value} or {SUBSTITUTES[role].value}, got none, so "
                f"{what} is not known; let the reporter's filter and the scrape's relabelling "
                f"pass it: metrics.reporter.prom.filter.includes: '*:{role.value}'"
            )
    return found


def _name_vertices(table: SlotTable, tracks: Sequence[Track]) -> dict[str, str]:
    """Return a name for every vertex, by its id, each once."""
    names: dict[str, str] = {}
    for track in tracks:
        if track.metric.vertex in table.with_busy_time:
            names.setdefault(track.metric.vertex, track.metric.vertex_name)
    taken: set[str] = set()
    found: dict[str, str] = {}
    for vertex, text in sorted(names.items(), key=lambda item: item[1]):
        name = plain_name(text, longest=LONGEST_NAME)
        number = 2
        while name in taken:
            name = plain_name(text, longest=LONGEST_NAME - 4) + f"-{number}"
            number += 1
        taken.add(name)
        found[vertex] = name
    return found


def _read_vertex(
    table: SlotTable, name: str, subtasks: Subtasks, vertex: str, since: float
) -> Vertex:
    def dense(role: Role) -> tuple[Floats, Floats]:
        """Return rates of the subtasks and which are known, each of shape `(subtasks, slots)`."""
        own = subtasks.get((role, vertex), {})
        rates = np.full((max(own, default=0) + 1, table.slots), np.nan)
        for index, (amounts, covered) in own.items():
            enough = covered >= LIVE * table.slot
            rates[index, enough] = amounts[enough] / covered[enough]
        rates[:, table.begin + table.slot * np.arange(table.slots) < since] = np.nan
        return rates, np.isfinite(rates)

    out, lives = dense(Role.RECORDS_OUT)
    counted = lives.sum(axis=0)
    parallelism = np.where(lives.any(axis=0), lives.shape[0] - np.argmax(lives[::-1], axis=0), 0)

    def total(rates: Floats) -> Floats:
        known = np.isfinite(rates)
        whole = (known.sum(axis=0) == parallelism) & (parallelism > 0)
        return np.where(whole, np.nansum(rates, axis=0), np.nan)

    read = total(dense(Role.RECORDS_IN)[0])
    if not np.nansum(read) > 0:  # of a source, Flink counts what the operator reads, or nothing
        read = total(dense(Role.SOURCE_IN)[0])
    if not np.nansum(read) > 0:
        read = total(out)
    busy, _ = dense(Role.BUSY)
    busy = np.clip(busy / 1000, 0.0, 1.0)
    blocked, seen = dense(Role.BLOCKED)
    with np.errstate(invalid="ignore"):
        share = np.nansum(blocked, axis=0) / np.maximum(seen.sum(axis=0), 1) / 1000
    pending, told = dense(Role.PENDING)
    busiest = np.where(np.isfinite(busy), busy, -1.0).max(axis=0)
    return Vertex(
        name=name,
        parallelism=parallelism.astype(np.int64),
        complete=(parallelism > 0) & (counted == parallelism),
        taken=read,
        given=total(out),
        busy=total(busy),
        busiest=np.where(busiest < 0, np.nan, busiest),
        blocked=share,
        pending=np.where(told.any(axis=0), np.nansum(pending, axis=0), np.nan),
    )


def _cut(vertex: Vertex, first: int, last: int) -> Vertex:
    names = [each.name for each in fields(Vertex) if each.name != "name"]
    return replace(vertex, **{each: getattr(vertex, each)[first:last] for each in names})


def _named_edges(edges: Edges, names: Mapping[str, str]) -> Edges:
    pairs = []
    for pair in edges.pairs:
        ends = [names.get(each) for each in pair]
        if ends[0] is not None and ends[1] is not None:
            pairs.append((ends[0], ends[1]))
    return Edges(pairs=tuple(dict.fromkeys(pairs)))


def _find_restarts(tracks: Sequence[Track]) -> list[tuple[float, float]]:
    """Return when tasks ran again, and for how long none of theirs had reported before."""
    runs: dict[tuple[str, int], dict[tuple[str, ...], list[float]]] = defaultdict(dict)
    stops: list[tuple[float, float]] = []
    for track in tracks:
        if track.metric.role in GIVEN:
            place = runs[track.metric.vertex, track.metric.subtask]
            span = place.setdefault(track.metric.run, [track.first, track.last])
            span[0], span[1] = min(span[0], track.first), max(span[1], track.last)
            stops += track.falls
    for place in runs.values():
        spans = sorted(place.values())
        stops += [(a[1], b[0]) for a, b in itertools.pairwise(spans)]
    joined: list[tuple[float, float]] = []
    for stopped, ran in sorted(stops, key=lambda each: each[1]):
        if joined and ran - joined[-1][0] <= TOGETHER:
            began = min(joined[-1][0] - joined[-1][1], stopped)
            joined[-1] = (max(ran, joined[-1][0]), max(max(ran, joined[-1][0]) - began, 0.0))
        else:
            joined.append((ran, max(ran - stopped, 0.0)))
    return joined


def _count_managers(table: SlotTable, tracks: Sequence[Track]) -> Counts:
    lives: dict[str, Flags] = {}
    for track in tracks:
        if track.metric.role in GIVEN:
            flags = lives.setdefault(track.metric.task_manager, np.zeros(table.slots, dtype=bool))
            for first, _, covered in track.pieces:
                flags[first : first + covered.size] |= covered >= LIVE * table.slot
    return np.array(list(lives.values()), dtype=np.int64).sum(axis=0)


def _slots_each(tracks: Sequence[Track], over: float) -> int:
    """Return the most subtasks of one vertex that a TaskManager has at the end."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for track in tracks:
        if track.last > over - TOGETHER and track.metric.role in GIVEN:
            found[track.metric.task_manager, track.metric.vertex].add(track.metric.subtask)
    return max((len(each) for each in found.values()), default=1)


def _read_latency(table: SlotTable, job_ids: Set[str]) -> Floats:
    """Return seconds from the sources to the operator that markers reach last; NaN without."""
    grouped: dict[tuple[str, int], list[Track]] = defaultdict(list)
    for track in table.tracks(Role.LATENCY):
        if track.metric.job_id not in job_ids:
            continue
        grouped[track.metric.vertex, track.metric.subtask].append(track)
    sums: dict[str, list[Floats]] = {}
    for (operator, _), listed in grouped.items():
        amounts, covered = table.join(listed)
        kept = sums.setdefault(operator, [np.zeros(table.slots), np.zeros(table.slots)])
        kept[0] += amounts
        kept[1] += covered
    latest = np.full(table.slots, np.nan)
    for amounts, covered in sums.values():
        known = covered > 0
        latest[known] = np.fmax(latest[known], amounts[known] / covered[known] / 1000)
    return latest


def _refuse_blocked(history: JobHistory) -> None:
    told = all(np.isfinite(each.pending).any() for each in history.sources)
    share = float(history.held_back[history.known].mean()) if history.known.any() else 0.0
    if share > MOST_BLOCKED and not told:
        raise UnusableMetricsError(
            f"Expected times at which the sources are not back-pressured, got {1 - share:.0%} of "
            "the time: what would arrive is not known, as they report no backlog (pendingRecords); "
            "give the job more parallelism for an hour, and estimate again"
        )


def _with_notes(history: JobHistory) -> JobHistory:
    """Return the history, saying how much of it cannot be used."""
    notes = list(history.notes)
    lost = 1 - float((history.known | history.stopped).mean())
    if lost > 0.01:
        notes.append(f"{lost:.0%} of the time has no metrics, or not of all subtasks: left out")
    unknown = [each.name for each in history.sources if not np.isfinite(each.pending).any()]
    if unknown and history.held_back[history.known].any():
        notes.append(
            f"{', '.join(unknown)} reported no backlog (pendingRecords): while it was "
            "back-pressured, arrivals are drawn from before and after"
        )
    if not np.isfinite(history.latency).any():
        notes.append(
            "Without latency markers, response times as it was are modelled from backlog, "
            "back-pressure and busy time (metrics.latency.interval: 10 s measures them)"
        )
    return replace(history, notes=tuple(notes))
