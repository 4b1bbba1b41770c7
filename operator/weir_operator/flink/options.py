"""What Flink refuses of its configuration, found before a job is stopped for it. Pure.

Flink reads most keys when a job is submitted or a process starts, which in an upgrade is after the
job was stopped. So the keys of Flink that hold a duration or a size are read here as Flink reads
them, options of the JVM are looked at for what no JVM starts with, and reporters of metrics for one
that takes the port of Weir's. Keys that are not listed
pass: they may be of another Flink, or of a connector.

Source: `TimeUtils.parseDuration` and `MemorySize.parse` of Flink 2.3.0; a test holds the keys and
the spellings against them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from weir_operator.flink.configuration import METRICS_PORT, PROMETHEUS_REPORTER
from weir_operator.flink_keys import KEYS_BY_TYPE, add_own_names, own_names

DURATIONS, SIZES = (KEYS_BY_TYPE[kind] for kind in ("Duration", "MemorySize"))
"""Keys that hold a duration, and those that hold a size of memory or of a file."""
FRESH = frozenset(
    {
        "metrics.fetcher.update-interval",
        "rest.cache.checkpoint-statistics.timeout",
        "rest.cache.execution-graph.timeout",
        "web.refresh-interval",
    }
)
"""Keys that say for how long Flink's REST interface may answer with an earlier state of a job. With
long ones, Weir would take a job that runs for one that does not start, and undo each change."""
_MAX_STALE = 1.0
"""Seconds; they are added to the output gap of each change."""

_UNITS_OF_TIME = {
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("µs", "micro", "micros", "microsecond", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nano", "nanos", "nanosecond", "nanoseconds"), 1e-9),
}
"""Seconds."""
_UNITS_OF_SIZE = {
    **dict.fromkeys(("", "b", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kibibytes"), 2**10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 2**20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 2**30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 2**40),
}
_Unit = TypeVar("_Unit", int, float)
_QUANTITY = re.compile(r"([0-9]+)\s*(.*)", re.DOTALL)
_ISO = re.compile(
    r"([-+]?)p(?:([-+]?\d+)d)?"
    r"(t(?=[-+\d])(?:([-+]?\d+)h)?(?:([-+]?\d+)m)?(?:([-+]?\d+(?:[.,]\d{0,9})?)s)?)?",
    re.IGNORECASE | re.ASCII,
)
"""A duration such as `PT3S`, which Flink leaves to Java."""
_MAXIMUM = 2**63 - 1

_ROLES = ("jobmanager", "taskmanager")
_OPTIONS_OF_ALL = "env.java.opts.all"
_REPORTER = re.compile(r"metrics\.reporter\.([^.]+)\.factory\.class")
_COLLECTOR = re.compile(r"-XX:([+-])(Use(?:Epsilon|G1|Parallel|Serial|Shenandoah|Z)GC)")


@dataclass(frozen=True, slots=True)
class RefusedValue:
    """A value that Flink, or its JVM, refuses."""

    key: str
    value: str
    """As it may be shown."""
    expected: str
    remedy: str


def find_refused_values(config: Mapping[str, str]) -> Iterator[RefusedValue]:
    """Yield what Flink refuses of the user's keys, in their order."""
    for key, value in config.items():
        names = {key, *own_names(key)}
        if names & DURATIONS and read_duration(value) is None:
            yield RefusedValue(
                key, value, "a duration as Flink reads it",
                "write a whole number and its unit, such as 3 s, 500 ms or 2 min",
            )  # fmt: skip
        elif names & FRESH and not 0 < (read_duration(value) or 0.0) <= _MAX_STALE:
            yield RefusedValue(
                key, value, f"more than 0 and at most {_MAX_STALE:g} s",
                "leave it out, because Weir would see changes of the job too late",
            )  # fmt: skip
        elif names & SIZES and read_size(value) is None:
            yield RefusedValue(
                key, value, "a size as Flink reads it",
                "write a whole number and its unit, such as 64m or 64 mb",
            )  # fmt: skip
    yield from _find_collectors(config)
    yield from _find_reporters(config)


def read_duration(text: str) -> float | None:
    """Return the seconds that Flink reads; `None` where it reads no duration."""
    if (quantity := _read_quantity(text, _UNITS_OF_TIME)) is not None:
        number, unit = quantity
        # Only what no number of 64 bits holds is refused for its length.
        return None if number * max(1, int(unit)) > _MAXIMUM else number * unit
    found = _ISO.fullmatch(text.strip())
    if found is None or not (found[2] or found[3]) or len(text) > 100:
        return None
    parts = (float((part or "0").replace(",", ".")) for part in found.group(2, 4, 5, 6))
    units = (86_400.0, 3600.0, 60.0, 1.0)
    seconds = sum(part * unit for part, unit in zip(parts, units, strict=True))
    return -seconds if found[1] == "-" else seconds


def read_size(text: str) -> int | None:
    """Return the bytes that Flink reads; `None` where it reads no size."""
    quantity = _read_quantity(text, _UNITS_OF_SIZE)
    if quantity is None or quantity[0] * quantity[1] > _MAXIMUM:
        return None
    return quantity[0] * quantity[1]


def _read_quantity(text: str, units: Mapping[str, _Unit]) -> tuple[int, _Unit] | None:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or (unit := found[2].strip().lower()) not in units or len(found[1]) >= 100:
        return None
    return int(found[1]), units[unit]


def _find_collectors(config: Mapping[str, str]) -> Iterator[RefusedValue]:
    """Yield the options with which a JVM would have several garbage collectors."""
    config = add_own_names(config)
    shared = _collectors(config.get(_OPTIONS_OF_ALL, ""))
    if len(_chosen(shared)) > 1:
        yield _several(_OPTIONS_OF_ALL, _chosen(shared), "one garbage collector")
        return
    for role in _ROLES:
        key = f"env.java.opts.{role}"
        own = _collectors(config.get(key, ""))
        chosen = _chosen(shared | own)
        if len(chosen) > 1:
            beside = f", {_OPTIONS_OF_ALL} included" if _chosen(shared) else ""
            yield _several(key, chosen, f"one garbage collector{beside}")


def _find_reporters(config: Mapping[str, str]) -> Iterator[RefusedValue]:
    """Yield the ports of other Prometheus reporters that take the port of Weir's.

    Of two reporters, one gets the port, and the other one Flink leaves out with a warning. Where
    that is Weir's, nobody measures the job.
    """
    for key, value in config.items():
        found = _REPORTER.fullmatch(key)
        if found is None or value.strip() != PROMETHEUS_REPORTER:
            continue
        port_key = f"metrics.reporter.{found[1]}.port"
        ports = config.get(port_key, str(METRICS_PORT))
        if _has_port(ports, METRICS_PORT):
            yield RefusedValue(
                port_key, ports, f"ports without {METRICS_PORT}, on which Weir's own reporter is",
                f"set other ports, such as {METRICS_PORT + 1}, or remove this reporter and read"
                " Weir's",
            )  # fmt: skip


def _has_port(ports: str, port: int) -> bool:
    """Return whether `port` is in Flink's list of ports and ranges, such as `9250-9260,9300`."""
    for part in ports.split(","):
        first, _, last = part.partition("-")
        first, last = first.strip(), (last or first).strip()
        if first.isdecimal() and last.isdecimal() and int(first) <= port <= int(last):
            return True
    return False


def _collectors(options: str) -> dict[str, bool]:
    """Return which collectors are switched on or off; the last word on one counts."""
    found = (_COLLECTOR.fullmatch(word) for word in shlex.split(options))
    return {each[2]: each[1] == "+" for each in found if each is not None}


def _chosen(collectors: Mapping[str, bool]) -> list[str]:
    return [f"-XX:+{name}" for name, is_on in collectors.items() if is_on]


def _several(key: str, chosen: list[str], expected: str) -> RefusedValue:
    return RefusedValue(
        key, " ".join(chosen), expected, "keep one of them, because no JVM starts with several"
    )
