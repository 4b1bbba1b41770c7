"""Pictures for the documentation: small, static, the same colours everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"

# Text stays text, and equal pictures are equal files.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "weir", "font.size": 9})

Points = tuple[NDArray[np.float64], NDArray[np.float64]]
Line = tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Axes:
    title: str
    across: str
    up: str
    log_across: bool = False
    log_up: bool = False


def draw_lines(name: str, lines: Mapping[str, Line], axes: Axes) -> Path:
    """Write a picture of lines, one per label, to `docs/pictures/<name>.svg`."""
    canvas, plot = _begin(axes)
    for label, (across, up) in lines.items():
        plot.plot(across, up, label=label, linewidth=1.3)
    return _finish(name, canvas, plot)


def draw_bars(
    name: str,
    groups: Sequence[str],
    bars: Mapping[str, Sequence[float]],
    axes: Axes,
    *,
    folder: Path = FOLDER,
) -> Path:
    """Write a picture of grouped bars, one value per group for each label; one needs no label."""
    canvas, plot = _begin(axes)
    width = 0.8 / len(bars)
    places = np.arange(len(groups))
    for rank, (label, values) in enumerate(bars.items()):
        drawn = plot.bar(places + (rank - (len(bars) - 1) / 2) * width, values, width, label=label)
        if len(bars) == 1:
            plot.bar_label(drawn, fmt="%.3g", padding=2)
    plot.set_xticks(places, groups)
    return _finish(name, canvas, plot, folder=folder)


def draw_points(
    name: str,
    groups: Mapping[str, Points],
    axes: Axes,
    *,
    level: float | None = None,
    folder: Path = FOLDER,
) -> Path:
    """Write a picture of points, with a line at a level, or where both values are the same."""
    canvas, plot = _begin(axes)
    if level is not None:
        plot.axhline(level, color="grey", linewidth=0.8)
    elif axes.log_up and axes.log_across:
        every = np.concatenate([values for points in groups.values() for values in points])
        limits = (every.min() / 1.5, every.max() * 1.5)
        plot.plot(limits, limits, color="grey", linewidth=0.8)
        plot.set(xlim=limits, ylim=limits)
    for label, (across, up) in groups.items():
        plot.plot(across, up, "o", label=label, markersize=4, alpha=0.7)
    if level is None and not axes.log_up:
        plot.set_ylim(bottom=0)  # a limit that is set before holds for the other end, too
    return _finish(name, canvas, plot, folder=folder)


def draw_beside(
    name: str,
    groups: Mapping[str, Sequence[float]],
    axes: Axes,
    *,
    band: tuple[float, float],
    folder: Path,
) -> Path:
    """Write a picture of values along a line for each group, with a band where they should lie."""
    canvas, plot = _begin(axes)
    plot.axvspan(*band, color="green", alpha=0.12, linewidth=0)
    upwards = list(groups.items())[::-1]
    for place, (_, values) in enumerate(upwards):
        spread = place + np.linspace(-0.25, 0.25, len(values)) if len(values) > 1 else [place]
        plot.plot(values, spread, "o", color="tab:blue", markersize=4, alpha=0.7)
    plot.set_yticks(np.arange(len(groups)), [label for label, _ in upwards])
    plot.grid(axis="x", linewidth=0.3)
    if axes.log_across:
        plot.xaxis.set_major_formatter("{x:g}")
    else:
        plot.set_xlim(left=0)
    return _finish(name, canvas, plot, folder=folder)


def _begin(axes: Axes):  # type: ignore[no-untyped-def]  # matplotlib's own types are partial
    canvas = Canvas(figsize=(7.2, 3.6), layout="constrained")
    plot = canvas.add_subplot()
    plot.set_title(axes.title, loc="left", fontsize=10)
    plot.set_xlabel(axes.across)
    plot.set_ylabel(axes.up)
    if axes.log_across:
        plot.set_xscale("log")
    if axes.log_up:
        plot.set_yscale("log")
    plot.spines[["top", "right"]].set_visible(False)
    plot.grid(axis="y", linewidth=0.3)
    return canvas, plot


def _finish(name: str, canvas: Canvas, plot, *, folder: Path = FOLDER) -> Path:  # type: ignore[no-untyped-def]
    if any(plot.get_legend_handles_labels()[1]):
        plot.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    path = folder / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, metadata={"Date": None})
    return path
