"""From one of Flink's stack traces to one sentence for people."""

from __future__ import annotations

import re

LONGEST = 300
"""Characters of a sentence; conditions and events are read in narrow columns."""

_WRAPPED = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+(?P<name>[\w$]+)(?:: (?P<message>.*))?$")
# Wrappers say nothing by themselves; where one of them is the last cause, its message still does.
_CAUSED_BY = re.compile(r"^\s*Caused by: (?P<cause>.+)$", re.MULTILINE)


def root_cause(text: str) -> str:
    """Return the innermost cause in a stack trace as one line, such as `IOException: disk full`.

    Text that is no stack trace gives its first line that says something.
    """
    causes = [match["cause"] for match in _CAUSED_BY.finditer(text)]
    line = causes[-1] if causes else _first_telling_line(text)
    return _shorten(_without_package(line.strip()))


def _first_telling_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return next(
        (line for line in lines if line and not line.startswith(("<Exception on server", "at "))),
        "no cause given",
    )


def _without_package(line: str) -> str:
    # A serialised cause repeats its class: `SerializedThrowable: java.io.IOException: full`.
    while (match := _WRAPPED.match(line)) is not None:
        name, message = match["name"], match["message"]
        if message is None:
            return name
        if _WRAPPED.match(message) is None:
            return f"{name}: {message}"
        line = message
    return line


def _shorten(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
