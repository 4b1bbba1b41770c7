"""Every dashboard, and the file of the chart that it is written to."""

from __future__ import annotations

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
    """Return what the files should hold."""
    encoder = JSONEncoder(indent=2, sort_keys=True)
    return {
        FOLDER / f"{name}.json": f"{encoder.encode(make().build())}\n"
        for name, make in MAKERS.items()
    }
