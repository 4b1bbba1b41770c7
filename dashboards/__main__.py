"""Writes Weir's Grafana dashboards to the chart.

python -m dashboards            write them
python -m dashboards --check    fail where one is stale, write nothing
"""

from __future__ import annotations

import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import of_app, of_controller, of_fleet, of_operator

FOLDER = Path(__file__).resolve().parents[1] / "helm/weir/files/dashboards"
MAKERS = {
    "fleet": of_fleet.make,
    "app": of_app.make,
    "operator": of_operator.make,
    "controller": of_controller.make,
}


def written_files() -> dict[Path, str]:
    """Return what the files should hold; each panel has a number, by which addresses name it."""
    found = {}
    for name, make in MAKERS.items():
        page = make().build()
        for number, panel in enumerate(page.panels or (), start=1):
            panel.id_val = number
        text = JSONEncoder(indent=2, sort_keys=True).encode(page)
        found[FOLDER / f"{name}.json"] = f"{text}\n"
    return found


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
