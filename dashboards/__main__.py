"""Writes Weir's Grafana dashboards to the chart.

python -m dashboards            write them
python -m dashboards --check    fail where one is stale, write nothing
"""

from __future__ import annotations

import sys

from dashboards.files import FOLDER, written_files


def main(arguments: list[str]) -> int:
    """Write or check the files; return the exit code."""
    wanted = written_files()
    there = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.json"))}
    stale = [path for path in {**wanted, **there} if wanted.get(path) != there.get(path)]
    for path in stale:
        if "--check" in arguments:
            print(f"{path.name} is stale: write it again with make dashboards")
        elif path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
            print(path.name)
        else:
            path.unlink()
            print(f"{path.name} removed")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
