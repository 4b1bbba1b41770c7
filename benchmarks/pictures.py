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

Line = tuple[NDArray[np.int64] | NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True, slots=True)
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
    name: str, groups: Sequence[str], bars: Mapping[str, Sequence[float]], axes: Axes
) -> Path:
    """Write a picture of grouped bars, one value per group for each label."""
    canvas, plot = _begin(axes)
    width = 0.8 / len(bars)
    places = np.arange(len(groups))
    for rank, (label, values) in enumerate(bars.items()):
        plot.bar(places + (rank - (len(bars) - 1) / 2) * width, values, width, label=label)
    plot.set_xticks(places, groups)
    return _finish(name, canvas, plot)


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


def _finish(name: str, canvas: Canvas, plot) -> Path:  # type: ignore[no-untyped-def]
    plot.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    path = FOLDER / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, metadata={"Date": None})
    return path
