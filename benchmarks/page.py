"""Write `docs/reproduction.md` from the results of the benchmarks: `python -m benchmarks.page`.

What was not run yet is missing from the page, and the page says so.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2

from benchmarks.pictures import FOLDER as PICTURES
from benchmarks.registry import find_benchmark
from benchmarks.rows import RESULTS

PAGE = PICTURES.parent / "reproduction.md"
SECTIONS: Mapping[str, tuple[str, str]] = {
    "reproduce-tables": (
        "Tables 2 to 5 of the 2023 paper",
        "Average cost / violations (%) / reconfigurations (%) / resources. The threshold rules "
        "and QL+PDS draw nothing: all four numbers must be the published digits. Policies that "
        "draw must lie within the interval that seeds leave; deep rows have the ten seeds of "
        "`reproduce-deep` where those were run, else one. What does not hold, and why. QL, taxi "
        "A with 10 types, is off by 0.0002, which is also the deviation of three seeds of the "
        "program behind the paper. QL+FA, K=20 A with 6 types, has two outcomes, .06 and .09, "
        "by the seed; the paper printed the one that fewer of ours reach. Deep rows of "
        "infrastructure B: a network settles early on one deployment or another, and single "
        "seeds differ tenfold; the paper seems to have had one network each.",
    ),
    "reproduce-deep": (
        "Deep rows of tables 2 to 5, ten seeds",
        "Costs of single seeds differ by up to a factor of ten, as networks settle on one "
        "deployment or another; a cell holds within 30 % of the published cost, or where chance "
        "explains it: where a single run of ours may lie. Cells that are missing were not run yet.",
    ),
    "reproduce-encodings": ("Figure 27 of the 2023 paper: encodings and layers", ""),
    "reproduce-figures": (
        "Figures of the 2023 paper",
        "The paper's pictures cannot be read as numbers; *published* is here what the program "
        "behind the paper gives when others run it. The row of "
        "`heinze-fastest` that is off is chaotic: the last bit of a rate changes what it learns.",
    ),
    "reproduce-am": (
        "Figures 20 to 22 of the 2023 paper: budgets and weights",
        "Money per hour / violations (%) / reconfigurations (%), tuned on the first 50,001 slots, "
        "judged over the whole year. The pictures print no numbers: the first table holds our "
        "naive baseline against that of the program behind the paper, the others what is tuned "
        "against our naive baseline. The paper claims less money than naive in every setting, and "
        "constraints kept in 96 % of the runs, by the naive baseline in 42 %.",
    ),
    "reproduce-mdp18": ("The 2018 MDP paper (Russo Russo, ZEUS 2018)", ""),
    "edf": ("EDF's simulated part (Cardellini et al., FGCS 2018)", ""),
}
ORDER = ("figure-12", "figure-16", "figure-17", "figure-18", "figure-23", "figure-24", "figure-25")

TEMPLATE = """\
# Reproduction

What the papers printed beside what Weir's implementations give. This page is written by
`python -m benchmarks.page` from the results of the commands below; the traces that they need are
not part of the project (see [Experiments](experiments.md)). Where a paper and its numbers differ,
the policies' default is the paper's text and `published: 1` is what the numbers were made with.
{% for section in sections %}
## {{ section.title }}

`make bench NAME={{ section.name }}`
{% if section.text %}
{{ section.text | wordwrap(100) }}
{% endif %}
| figure | value | goal | holds |
|---|---|---|---|
{% for figure in section.figures -%}
| {{ figure.figure }} | {{ figure.shown }} | {{ figure.goal or "" }} | {{ figure.verdict }} |
{% endfor -%}
{% for table, rows in section.tables %}
### {{ table }}

| | {{ rows[0].beside_what }} | ours | seeds | {{ rows[0].claim }} |
|---|---|---|---|---|
{% for row in rows -%}
| {{ row.row }} | {{ row.beside }} | {{ row.ours }} | {{ row.seeds }} | {{ row.verdict }} |
{% endfor -%}
{% endfor -%}
{% for picture in section.pictures %}
![{{ picture }}](pictures/{{ picture }}.svg)
{% endfor -%}
{% endfor %}
{% if missing -%}
Not run yet: {{ missing | join(", ") }}.
{% endif -%}
"""
VERDICTS = {True: "yes", False: "**no**", None: ""}


def main() -> int:
    """Write the page; return the exit status."""
    sections = [section for name in SECTIONS if (section := read_section(name))]
    missing = [name for name in SECTIONS if not (RESULTS / f"{name}.json").exists()]
    environment = jinja2.Environment(autoescape=False, keep_trailing_newline=True)
    page = environment.from_string(TEMPLATE).render(sections=sections, missing=missing)
    PAGE.write_text(page, encoding="utf-8")
    print(PAGE)
    return 0


def read_section(name: str) -> dict[str, Any] | None:
    """Return what a benchmark left, ready for the page; `None` where it was not run."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    title, text = SECTIONS[name]
    figures = [
        {**figure, "shown": say_value(figure), "verdict": VERDICTS[figure["holds"]]}
        for figure in json.loads(path.read_text())
    ]
    return {
        "name": find_benchmark(name).name,
        "title": title,
        "text": text,
        "figures": figures,
        "tables": group_rows(RESULTS / f"{name}-rows.json"),
        "pictures": list(find_pictures(name)),
    }


def say_value(figure: Mapping[str, Any]) -> str:
    """Return a figure's value with its unit."""
    if figure["value"] is None:
        return "not measured"
    return f"{figure['value']:.4g} {figure['unit']}".rstrip()


def group_rows(path: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the rows of a file by table, in the order of the file."""
    if not path.exists():
        return []
    tables: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(path.read_text()):
        tables.setdefault(row["table"], []).append({**row, "verdict": VERDICTS[row["holds"]]})
    return list(tables.items())


def find_pictures(name: str) -> Iterator[str]:
    """Yield the pictures that a benchmark drew."""
    prefixes: Iterable[str] = {
        "reproduce-figures": ORDER,
        "reproduce-mdp18": ("mdp18",),
        "edf": ("edf",),
        "reproduce-encodings": ("figure-27",),
    }.get(name, ())
    for prefix in prefixes:
        for path in sorted(PICTURES.glob(f"{prefix}*.svg")):
            yield path.stem


if __name__ == "__main__":
    sys.exit(main())
