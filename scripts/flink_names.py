"""Writes the names that Flink's options have, and which are durations and sizes, from Flink itself.

    python scripts/flink_names.py HOME...    read them from these folders of Flink, the newest last
    make names                              of all versions, which it downloads

Without HOME, it reads the installed Flink. What the files have of other versions stays.
"""

# ruff: noqa: INP001  (a script, not a package)
from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from weir_operator.flink.jars import class_path, find_java, flink_home

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "operator/weir_operator/flink_names.json"
TYPES = ROOT / "operator/weir_operator/flink_types.json"
PROGRAM = ROOT / "scripts/ReadOptions.java"


def read_options(home: Path, texts: str = "") -> list[str]:
    """Return the lines that `ReadOptions` prints with a Flink."""
    java = [str(find_java()), "-Dfile.encoding=UTF-8", "-cp", class_path(home), str(PROGRAM)]
    return subprocess.run(
        java, input=texts, capture_output=True, text=True, check=True, encoding="utf-8"
    ).stdout.splitlines()


def names_in(lines: list[str]) -> dict[str, list[str]]:
    """Return by an option's own name its others, in the order of Flink's search."""
    found: dict[str, list[str]] = {}
    for line in lines:
        kind, _, names = line.partition(" ")
        if kind == "older":
            own, other = names.split(" ")
            others = found.setdefault(own, [])
            if other not in (own, *others):
                others.append(other)
    return {own: others for own, others in found.items() if others}


def types_in(lines: list[str]) -> dict[str, list[str]]:
    """Return the keys of each type, `Duration` and `MemorySize`."""
    return {
        kind: [line.split(" ")[2] for line in lines if line.startswith(f"key {kind} ")]
        for kind in ("Duration", "MemorySize")
    }


def join(first: Mapping[str, list[str]], then: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the names of both; those of the first come first."""
    return {
        own: list(dict.fromkeys([*first.get(own, ()), *then.get(own, ())]))
        for own in sorted({*first, *then})
    }


def main() -> None:
    """Write the files."""
    names, types = (json.loads(file.read_text(encoding="utf-8")) for file in (FILE, TYPES))
    homes = [Path(each) for each in sys.argv[1:]] or [flink_home()]
    for home in homes:
        lines = read_options(home)
        names, types = join(names_in(lines), names), join(types_in(lines), types)
    types = {kind: sorted(keys) for kind, keys in types.items()}
    for file, found in ((FILE, names), (TYPES, types)):
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
