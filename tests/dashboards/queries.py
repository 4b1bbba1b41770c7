"""Every query that a dashboard asks, and whether a Prometheus server has an answer to it.

Reads the files as Grafana does, so that what is checked is what is installed. An answer counts when
it holds a number: a series of NaN alone draws nothing.
"""

from __future__ import annotations

import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT = 30.0
"""Seconds for which a server is waited for."""
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_VARIABLE = re.compile(r"\$([a-z_]\w*)")  # not $1, of a replacement


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One query of a dashboard."""

    dashboard: str
    """Title of the dashboard."""
    place: str
    """Title of the panel, name of the variable or of the annotation."""
    expression: str
    """PromQL, with variables."""
    label: str = ""
    """The label whose values are asked for, by a variable; empty asks for the values of series."""

    @property
    def metrics(self) -> frozenset[str]:
        """Names of Weir's metrics that it asks for, as documented."""
        names = set(re.findall(r"\bweir_\w+", self.expression))
        return frozenset(re.sub(r"_(bucket|sum|count)$", "", name) for name in names)

    def filled(self, variables: Mapping[str, str]) -> str:
        """Return the expression as Grafana sends it.

        Raises:
            KeyError: A variable has no value.
        """
        return _VARIABLE.sub(lambda found: variables[found.group(1)], self.expression)


def read_queries(path: Path) -> tuple[Asked, ...]:
    """Return all queries of a dashboard's file."""
    page = json.loads(path.read_text(encoding="utf-8"))
    return tuple(_queries(page))


def has_data(server: str, asked: Asked, variables: Mapping[str, str]) -> bool:
    """Return whether a Prometheus server's answer holds a number.

    Args:
        server: Its address, such as `http://127.0.0.1:9090`.
        asked: The query.
        variables: What is chosen, `__range` and `__rate_interval` included.

    Raises:
        OSError: The server does not answer, or refuses the query.
    """
    expression = asked.filled(variables)
    if asked.label:
        return bool(_get(server, f"label/{asked.label}/values", {"match[]": expression}))
    answer = _get(server, "query", {"query": expression})
    return any(math.isfinite(float(each["value"][1])) for each in answer["result"])


def _queries(page: Mapping[str, Any]) -> Iterator[Asked]:
    title = page["title"]
    for panel in page["panels"]:
        for target in panel.get("targets", ()):
            yield Asked(dashboard=title, place=panel["title"], expression=target["expr"])
    for each in page["annotations"].get("list", ()):
        yield Asked(dashboard=title, place=each["name"], expression=each["expr"])
    for variable in page["templating"]["list"]:
        found = _LABEL_VALUES.fullmatch(variable.get("definition", ""))
        if found is not None:
            yield Asked(
                dashboard=title,
                place=variable["name"],
                expression=found["series"],
                label=found["label"],
            )


def _get(server: str, what: str, parameters: Mapping[str, str]) -> Any:
    url = f"{server}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        return json.load(answer)["data"]
