"""The dashboards of the chart: fresh, valid, explained, and at home with any Grafana."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.__main__ import FOLDER, main
from tests.dashboards.queries import read_queries

DOCS = Path(__file__).parents[2] / "docs"
FILES = sorted(FOLDER.glob("*.json"))
PAGES = {path.stem: json.loads(path.read_text()) for path in FILES}
WIDTH = 24
"""Columns of Grafana's grid."""


def charts(page):
    return [panel for panel in page["panels"] if panel["type"] not in ("row", "text")]


def test_a_file_that_somebody_edited_is_stale(tmp_path, monkeypatch, capsys):
    for path in FILES:
        (tmp_path / path.name).write_text(path.read_text())
    monkeypatch.setattr("dashboards.__main__.FOLDER", tmp_path)
    (tmp_path / "fleet.json").write_text("{}")
    (tmp_path / "forgotten.json").write_text("{}")

    code, told = main(["--check"]), capsys.readouterr().out
    main([])

    assert code == 1
    assert told.splitlines() == [
        "fleet.json is stale: write it again with make dashboards",
        "forgotten.json is stale: write it again with make dashboards",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [path.name for path in FILES]
    assert main(["--check"]) == 0


@pytest.mark.parametrize("name", PAGES)
def test_grafanas_own_model_reads_a_dashboard_and_loses_nothing(name):
    register_default_plugins()

    read = Dashboard.from_json(PAGES[name])

    written = json.loads(JSONEncoder().encode(read))
    for each in (*written["links"], *written["annotations"].get("list", ())):
        each["placement"] = ""  # the model knows one place of these, and writes no other
    assert written == PAGES[name]


@pytest.mark.parametrize("name", PAGES)
def test_every_panel_says_what_it_shows_and_in_which_unit(name):
    for panel in PAGES[name]["panels"]:
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"].endswith("."), panel["title"]
        if panel["type"] == "text":
            assert panel["options"]["content"].endswith("."), panel["title"]
    for panel in charts(PAGES[name]):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


@pytest.mark.parametrize("name", PAGES)
def test_panels_lie_side_by_side(name):
    taken: set[tuple[int, int]] = set()
    for panel in PAGES[name]["panels"]:
        place = panel["gridPos"]
        x, y = place.get("x", 0), place.get("y", 0)
        cells = {(x + i, y + j) for i in range(place["w"]) for j in range(place["h"])}
        assert x + place["w"] <= WIDTH, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", PAGES)
def test_the_reader_chooses_the_data_source(name):
    text = json.dumps(PAGES[name])
    names = {variable["name"] for variable in PAGES[name]["templating"]["list"]}

    assert set(re.findall(r'"uid": "([^"]*)"', text)) == {"${datasource}", f"weir-{name}"}
    assert "datasource" in names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_queries_ask_for_documented_metrics_and_by_known_variables(path):
    page = PAGES[path.stem]
    documented = set(re.findall(r"^\| `(weir_\w+)`", (DOCS / "metrics.md").read_text(), re.M))
    known = {variable["name"] for variable in page["templating"]["list"]}

    asked = read_queries(path)

    assert len(asked) > 10
    for each in asked:
        assert each.metrics, each.expression
        assert each.metrics <= documented, each.place
        used = set(re.findall(r"\$([a-z_]\w*)", each.expression))
        assert used <= known | {"__range", "__rate_interval"}, each.place


def test_a_row_of_the_fleet_leads_to_its_streamapp():
    [table] = [panel for panel in PAGES["fleet"]["panels"] if panel["type"] == "table"]

    addresses = [
        link["url"]
        for override in table["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "links"
        for link in each["value"]
    ]

    [address] = addresses
    assert address.startswith(f"/d/{PAGES['app']['uid']}?")
    assert "var-app=${__data.fields.StreamApp}" in address
