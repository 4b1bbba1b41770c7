"""The pictures of `docs/evidence.md`, drawn from the results.

Each needs some results, and is left out without them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import NEAR
from benchmarks.pictures import Axes, Points, draw_bars, draw_beside, draw_points
from benchmarks.policies.live.match import AUTOSCALER, FORMS, MatchOutcome, pairs_of
from benchmarks.results import FOLDER, load_outcomes

SIMPLE = ("queueing", "planner")
"""Policies that stand beside the tuned one."""
Result = Mapping[str, Any]
Results = Mapping[str, Result]
_NUMBER = re.compile(r"[<]?(-?\d[\d,]*\.?\d*|\.\d+)")


def draw_pictures(results: Results, folder: Path) -> frozenset[str]:
    """Draw all that there are results for, as `evidence-NAME.svg`; return their names."""
    drawn = set()
    for name, (needed, draw) in PICTURES.items():
        if all(each in results for each in needed):
            if name == "printed" and not results[needed[0]]["rows"][0].get("printed"):
                continue  # taken before these were run
            draw(f"evidence-{name}", results, folder)
            drawn.add(name)
    return frozenset(drawn)


def draw_published(name: str, results: Results, folder: Path) -> None:
    """Every cell of Tables 2 to 5: the cost that is printed, and ours."""
    groups: dict[str, list[tuple[float, float]]] = {}
    for result in ("reproduce-tables", "reproduce-deep"):
        for row in results[result]["rows"]:
            policy = row["row"].split(",")[0]
            kind = "thresholds" if policy.startswith("TB") else policy
            groups.setdefault(kind, []).append((_first(row["beside"]), _first(row["ours"])))
    axes = Axes(
        "Tables 2 to 5: average cost of each cell",
        "as the paper prints it",
        "ours",
        log_across=True,
        log_up=True,
    )
    draw_points(name, {kind: _points(each) for kind, each in groups.items()}, axes, folder=folder)


def draw_printed(name: str, results: Results, folder: Path) -> None:
    """The same cells with the settings that the paper prints."""
    rows = results["reproduce-tables"]["rows"]
    groups = {
        "as it was run": _points([(_first(each["beside"]), _first(each["ours"])) for each in rows]),
        "as printed": _points([(_first(each["beside"]), _first(each["printed"])) for each in rows]),
    }
    axes = Axes(
        "Tables 2 to 5 without the deep rows: settings as run and as printed",
        "cost as the paper prints it",
        "ours",
        log_across=True,
        log_up=True,
    )
    draw_points(name, groups, axes, folder=folder)


def draw_planner(name: str, results: Results, folder: Path) -> None:
    """Cost over the optimum in all settings of Tables 2 to 5."""
    values = {each["figure"]: each["value"] for each in results["planner"]["figures"]}
    ends = ": clairvoyant optimum"
    settings = [each.removesuffix(ends) for each in values if each.endswith(ends)]
    best = {
        setting: next(
            value
            for figure, value in values.items()
            if figure.startswith(f"{setting}: the best of") and figure.endswith("own moves")
        )
        for setting in settings
    }
    across = np.arange(len(settings), dtype=float)
    optimum = np.array([values[f"{each}{ends}"] for each in settings])
    ours = np.array([values[f"{each}: planner"] for each in settings])
    others = np.array([best[each] for each in settings])
    axes = Axes(
        "24 settings of the 2023 paper: cost over that of the clairvoyant optimum",
        "setting: 12 of taxi traffic, then 12 of tweets",
        "times the optimum",
    )
    draw_points(
        name,
        {"best of the others": (across, others / optimum), "planner": (across, ours / optimum)},
        axes,
        level=1.0,
        folder=folder,
    )


def draw_tuning(name: str, results: Results, folder: Path) -> None:
    """What the weights of Figure 21 are worth, beside a deployment that does not move."""
    rows = [each for each in _figure_21(results) if ", 2 % / 5 %," in each["row"]]
    settings = [each["row"].split(", 2 % /")[0] for each in rows]
    beside = _beside(results)
    bars = {
        "naive": [_first(each["beside"]) for each in rows],
        "tuned weights": [_first(each["ours"]) for each in rows],
        "fixed": [beside[f"{each}, 2 %: fixed"] for each in settings],
        **{kind: [beside[f"{each}: {kind}"] for each in settings] for kind in SIMPLE},
    }
    axes = Axes(
        "Figure 21: at most 2 % of violations and 5 % of reconfigurations",
        "application, node types",
        "money per hour",
    )
    draw_bars(name, [each.removesuffix(", 40 ms") for each in settings], bars, axes, folder=folder)


def count_cheaper_fixed(results: Results) -> tuple[int, int]:
    """Return in how many settings of Figure 21 the fixed deployment costs less, and of how many."""
    beside = _beside(results)
    rows = _figure_21(results)
    cheaper = [
        beside[f"{each['row'].rsplit(' / ', 1)[0]}: fixed"] < _first(each["ours"]) for each in rows
    ]
    return sum(cheaper), len(cheaper)


def _figure_21(results: Results) -> list[Mapping[str, str]]:
    return [each for each in results["reproduce-am"]["rows"] if each["table"] == "Figure 21"]


def _beside(results: Results) -> dict[str, float]:
    """Return the money of what stands beside Figures 20 to 22, by its name."""
    rows = results["reproduce-am-beside"]["rows"]
    return {each["row"].split(" (")[0]: _first(each["ours"]) for each in rows}


def draw_ratios(name: str, results: Results, folder: Path) -> None:
    """Numbers that three papers print, ours divided by theirs."""
    groups = {
        "MDP, Table 1": list(_row_ratios(results["reproduce-mdp18"], "Table 1")),
        "EDF, Table 1": list(_row_ratios(results["edf"], "Table 1, without")),
        "AuTraScale+": list(_figure_ratios(results["autrascale"])),
    }
    axes = Axes(
        f"Numbers of three papers; the band is {100 * NEAR:.0f} %",
        "ours / published",
        "",
        log_across=True,
    )
    draw_beside(name, groups, axes, band=(1 - NEAR, 1 + NEAR), folder=folder)


def _row_ratios(result: Result, title: str) -> Iterator[float]:
    for row in result["rows"]:
        if row["table"].startswith(title):
            pairs = zip(_numbers(row["beside"]), _numbers(row["ours"]), strict=False)
            yield from (ours / theirs for theirs, ours in pairs if ours > 0 and theirs > 0)


def _figure_ratios(result: Result) -> Iterator[float]:
    for each in result["figures"]:
        found = re.search(r"published (-?[\d.]+)", each["figure"])
        if found and each["value"] and float(found[1]) * each["value"] > 0:
            yield each["value"] / float(found[1])


def draw_match(name: str, results: Results, folder: Path) -> None:
    """Weir and Flink's autoscaler, each pair's violations against its cost."""
    outcomes = load_outcomes(FOLDER / "live", MatchOutcome)
    groups: dict[str, Points] = {}
    for ours in FORMS.values():
        pairs = pairs_of(outcomes, ours)
        for place, side in enumerate((ours, AUTOSCALER)):
            runs = [pair[place] for pair in pairs]
            if runs:
                groups[side] = _points([(each.cost(), 100 * each.violations()) for each in runs])
    axes = Axes(
        "Weir and Flink's autoscaler, a point for each run",
        "currency per hour",
        "% of intervals over the bound",
    )
    draw_points(name, groups, axes, folder=folder)


def draw_night(name: str, results: Results, folder: Path) -> None:
    """A night of taxi trips on a real Flink: cost and violations by policy."""
    values = {each["figure"]: each["value"] for each in results["live-night"]["figures"]}
    ends = ": cost per hour"
    policies = [each.removesuffix(ends) for each in values if each.endswith(ends)]
    groups = {
        each: _points([(values[f"{each}{ends}"], values[f"{each}: intervals over the bound"])])
        for each in policies
    }
    axes = Axes(
        "A night of taxi trips on a real Flink",
        "currency per hour",
        "% of intervals over the bound",
    )
    draw_points(name, groups, axes, folder=folder)


def draw_gaps(name: str, results: Results, folder: Path) -> None:
    """How long a job's output stops for one change."""
    wanted = (
        ("6 Task-\nManagers", "rescale", "6 TaskManagers: output gap, median of 9"),
        ("20 Task-\nManagers", "rescale", "20 TaskManagers: output gap, median of 5"),
        ("on\nKubernetes", "rescale-cluster", "output gap, median"),
        ("0.01 GB\nof state", "rescale-state", "0.01 GB by savepoint: output gap"),
        ("1 GB\nof state", "rescale-state", "1 GB by savepoint: output gap"),
        ("5 GB\nof state", "rescale-state", "5 GB by savepoint: output gap"),
    )
    values = [
        next(each["value"] for each in results[result]["figures"] if each["figure"] == figure)
        for _, result, figure in wanted
    ]
    axes = Axes("Output gap of a change", "", "seconds")
    draw_bars(name, [label for label, _, _ in wanted], {"": values}, axes, folder=folder)


def draw_exactness(name: str, results: Results, folder: Path) -> None:
    """How often a job was rescaled or disturbed, of those whose records were counted."""
    counts = {
        "rescales of one job": _value(results["soak"], "rescales"),
        "faults on a cluster": sum(_value(results[f"chaos-{n}"], "faults") for n in range(1, 5)),
    }
    axes = Axes("Rescales and faults in which records were counted", "", "times")
    draw_bars(name, list(counts), {"": list(counts.values())}, axes, folder=folder)


def draw_scale(name: str, results: Results, folder: Path) -> None:
    """What one controller takes with many StreamApps, as a share of each goal."""
    shares = {}
    for each in results["scale"]["figures"]:
        found = re.match(r"at most ([\d.]+)", each["goal"] or "")
        if found and float(found[1]) > 0 and each["value"]:
            shares[each["figure"]] = each["value"] / float(found[1])
    axes = Axes("Many StreamApps in one controller", "share of the goal", "")
    draw_beside(
        name, {key: [value] for key, value in shares.items()}, axes, band=(0.0, 1.0), folder=folder
    )


def _first(text: str) -> float:
    return _numbers(text)[0]


def _numbers(text: str) -> list[float]:
    """Return the numbers of a row's cell, without what is in parentheses."""
    plain = re.sub(r"\(.*?\)|;.*", "", text)
    return [float(each.replace(",", "")) for each in _NUMBER.findall(plain)]


def _value(result: Result, figure: str) -> float:
    return float(next(each["value"] for each in result["figures"] if each["figure"] == figure))


def _points(pairs: Sequence[tuple[float, float]]) -> Points:
    across, up = np.array(pairs, dtype=float).T
    return across, up


Draw = Callable[[str, Results, Path], None]
PICTURES: Mapping[str, tuple[Sequence[str], Draw]] = {
    "published": (("reproduce-tables", "reproduce-deep"), draw_published),
    "printed": (("reproduce-tables",), draw_printed),
    "planner": (("planner",), draw_planner),
    "tuning": (("reproduce-am", "reproduce-am-beside"), draw_tuning),
    "ratios": (("reproduce-mdp18", "edf", "autrascale"), draw_ratios),
    "match": (("live-match-pools",), draw_match),
    "night": (("live-night",), draw_night),
    "gaps": (("rescale", "rescale-cluster", "rescale-state"), draw_gaps),
    "exactness": (
        ("soak", "any-job", "crash", *(f"chaos-{number}" for number in range(1, 5))),
        draw_exactness,
    ),
    "scale": (("scale",), draw_scale),
}
"""Each picture's results, and what draws it."""
