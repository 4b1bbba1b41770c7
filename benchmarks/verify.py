"""Run the deterministic benchmarks again, and compare with what is kept, digit by digit.

    python -m benchmarks.verify            all of them, which takes an hour
    python -m benchmarks.verify NAME...    some

Writes nothing. Ends with status 1 where a figure or a row differs.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import structlog

from benchmarks.figures import Figure, Row
from benchmarks.registry import find_benchmark, find_benchmarks
from benchmarks.results import FOLDER

TIMED = ("longest decision",)
"""Parts of the names of figures that are times of this machine, and differ."""


def main(names: Sequence[str]) -> int:
    """Run and compare; return the exit status."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    known = find_benchmarks()
    status = 0
    for name in names or [each.name for each in known.values() if each.deterministic]:
        kept = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        found = find_benchmark(name).run()
        differences = list(find_differences(kept, found))
        count = len(kept["figures"]) + len(kept["rows"])
        print(f"{name}: {len(differences)} of {count} figures and rows differ", flush=True)
        for each in differences:
            print(f"  {each}")
        status |= bool(differences)
    return status


def find_differences(kept: Mapping[str, Any], found: Sequence[Figure | Row]) -> Iterator[str]:
    """Yield what is kept and not found, found and not kept, or found with other values."""
    was = _by_name((*kept["figures"], *kept["rows"]))
    now = _by_name(json.loads(json.dumps([asdict(each) for each in found])))
    for name in was.keys() - now.keys():
        yield f"{name}: gone"
    for name in now.keys() - was.keys():
        yield f"{name}: new"
    for name in was.keys() & now.keys():
        for field, value in was[name].items():
            if now[name].get(field) != value:
                yield f"{name}: {field} was {value!r}, is {now[name].get(field)!r}"


def _by_name(values: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    names = [each.get("figure") or f"{each['table']}, {each['row']}" for each in values]
    return {
        name: each
        for name, each in zip(names, values, strict=True)
        if not any(part in name for part in TIMED)
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
