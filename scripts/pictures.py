"""Draws the pictures of the concepts, as SVG that is read on light and on dark ground alike.

Nothing but rectangles, arrows and words: colours are of middle brightness, the ground is left
transparent, and words outside a box are grey. Sizes are in the units of the picture, about a pixel.
"""

# ruff: noqa: INP001  (a script, not a package)
from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

BLUE, GREEN, AMBER, GREY, RED = "#3b6fb6", "#2f8065", "#a8651e", "#737d88", "#b3434f"
FONT = "font-family='system-ui, sans-serif' font-size='14'"


@dataclass
class Drawing:
    """A picture that grows by one part a call."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, *words: str, fill: str) -> None:
        """Add a filled box with lines of words in its middle."""
        self.parts.append(
            f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='6' fill='{fill}'/>"
        )
        top = y + height / 2 - 9 * (len(words) - 1) + 5
        for line, each in enumerate(words):
            self.words(x + width / 2, top + 18 * line, each, fill="#ffffff")

    def frame(self, x: float, y: float, width: float, height: float, name: str) -> None:
        """Add a dashed frame with its name in the upper left corner."""
        self.parts.append(
            f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='8' fill='none' "
            f"stroke='{GREY}' stroke-dasharray='5 4'/>"
        )
        self.words(x + 10, y + 20, name, anchor="start")

    def words(
        self, x: float, y: float, words: str, *, anchor: str = "middle", fill: str = GREY
    ) -> None:
        """Add a line of words at its baseline."""
        self.parts.append(
            f"<text x='{x:g}' y='{y:g}' text-anchor='{anchor}' fill='{fill}'>{escape(words)}</text>"
        )

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Add an arrow along points."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = " stroke-dasharray='5 4'" if dashed else ""
        self.parts.append(
            f"<polyline points='{path}' fill='none' stroke='{GREY}' stroke-width='2'{dashes} "
            "marker-end='url(#tip)'/>"
        )

    def svg(self) -> str:
        """Return the picture as SVG."""
        tip = (
            "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' "
            f"markerHeight='7' orient='auto'><path d='M0,0 L8,4 L0,8 z' fill='{GREY}'/>"
            "</marker></defs>"
        )
        return "\n".join(
            [
                f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' "
                f"width='{self.width}' height='{self.height}' role='img' {FONT}>",
                f"<title>{escape(self.title)}</title>",
                tip,
                *self.parts,
                "</svg>\n",
            ]
        )


def drawn() -> dict[str, str]:
    """Return every picture by the name of its file."""
    return {
        "concepts-pools.svg": draw_pools(),
        "concepts-loops.svg": draw_loops(),
        "concepts-rescale.svg": draw_rescale(),
    }


def draw_pools() -> str:
    """Draw a dataflow, and where its replicas run."""
    drawing = Drawing(720, 330, "Three operators, and their replicas on the nodes of two pools")
    colours = {"source": BLUE, "match": GREEN, "sink": AMBER}
    for place, (name, fill) in enumerate(colours.items()):
        drawing.box(100 + 200 * place, 10, 120, 40, name, fill=fill)
        if place:
            drawing.arrow((20 + 200 * place, 30), (98 + 200 * place, 30))
    drawing.words(360, 80, "one operator of the dataflow: any number of replicas, in any pools")
    pools = {
        "pool small: 0.04 per CPU and hour": [("source", "250m"), ("match", "500m"),
                                              ("match", "500m"), ("sink", "250m")],
        "pool large: 0.05 per CPU and hour": [("match", "1"), ("match", "1")],
    }  # fmt: skip
    for row, (pool, replicas) in enumerate(pools.items()):
        top = 100 + 112 * row
        drawing.frame(10, top, 700, 98, pool)
        for place, (name, size) in enumerate(replicas):
            drawing.box(30 + 168 * place, top + 34, 150, 50, f"replica of {name}",
                        f"size {size}", fill=colours[name])  # fmt: skip
    return drawing.svg()


def draw_loops() -> str:
    """Draw the two loops and what runs between them."""
    drawing = Drawing(720, 360, "Operator Managers propose, the Application Manager grants")
    drawing.frame(10, 10, 700, 230, "Weir's controller")
    for place, name in enumerate(["source", "match", "sink"]):
        x = 30 + 150 * place
        drawing.box(x, 130, 143, 88, f"OM of {name}", "observes, predicts,", "proposes", fill=BLUE)
        drawing.arrow((x + 71, 128), (x + 71, 92))
    drawing.words(110, 114, "proposals", anchor="start")
    drawing.box(30, 44, 443, 46, "Application Manager (AM): orders, grants, denies", fill=GREEN)
    drawing.box(525, 44, 165, 74, "simulator, fitted", "to this job", fill=AMBER)
    drawing.arrow((523, 60), (475, 60))
    drawing.words(608, 138, "weights and budgets,")
    drawing.words(608, 156, "found by tuning")
    drawing.frame(10, 275, 700, 75, "the job, on a Flink cluster of its own")
    drawing.box(30, 302, 660, 36, "JobManager and TaskManagers", fill=GREY)
    drawing.arrow((180, 300), (180, 220))
    drawing.words(190, 262, "metrics, every interval", anchor="start")
    drawing.arrow((475, 80), (500, 80), (500, 300))
    drawing.words(510, 262, "what is granted, as one", anchor="start")
    return drawing.svg()


def draw_rescale() -> str:
    """Draw the steps of a rescale, and when the job is down."""
    drawing = Drawing(720, 190, "The steps of a rescale: the job is down from stop to verify")
    steps = [
        ("start", "new replicas", GREEN), ("stop", "with savepoint", RED),
        ("remove", "old replicas", RED), ("submit", "from savepoint", RED),
        ("verify", "tasks run", GREEN),
    ]  # fmt: skip
    for place, (name, what, fill) in enumerate(steps):
        x = 10 + 143 * place
        drawing.box(x, 50, 120, 56, name, what, fill=fill)
        if place:
            drawing.arrow((x - 22, 78), (x - 2, 78))
    drawing.words(
        10, 36, "each step is written to status.rescale before it is taken", anchor="start"
    )
    drawing.words(70, 130, "the job runs on")
    drawing.words(356, 130, "output gap: the job is down")
    drawing.words(642, 130, "or goes back")
    drawing.arrow((642, 142), (642, 172), (80, 172), (80, 144), dashed=True)
    drawing.words(360, 164, "did it not come to run: the old deployment, from the same savepoint")
    return drawing.svg()
