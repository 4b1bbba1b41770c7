"""Every dashboard, and the file of the chart that it is written to."""

from __future__ import annotations

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

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
        FOLDER / f"{name}.json": f"{encoder.encode(numbered(make().build()))}\n"
        for name, make in MAKERS.items()
    }


def numbered(page: Dashboard) -> Dashboard:
    """Return the dashboard with a number for each panel, by which an address can name it."""
    for number, panel in enumerate(page.panels or (), start=1):
        panel.id_val = number
    return page
