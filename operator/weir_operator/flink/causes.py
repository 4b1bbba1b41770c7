"""Turns one of Flink's stack traces into one sentence for people."""

from __future__ import annotations

import re

from weir_operator.limits import ERROR_TEXT, SENTENCE, cut_end, cut_sentence

_LONGEST_LINE = 10 * SENTENCE
"""Characters of a line that are looked at: a cause may be wrapped several times."""

_WRAPPED = re.compile(r"^(?:Caused by: )?(?:[\w$]+\.)+(?P<name>[\w$]+)(?:: (?P<message>.*))?$")
_IS_THROWN = re.compile(r"(Exception|Error|Throwable|Failure)$")
# The JVM gives the reason first and these two lines after it.
_EPILOGUE = ("Error: Could not create the Java Virtual Machine", "Error: A fatal exception has")
# It begins with which variables it took options from.
_PROLOGUE = ("NOTE: Picked up ", "Picked up ")
_STATE_WITHOUT_OPERATOR = re.compile(
    r"Cannot map checkpoint/savepoint state for operator (?P<operator>[0-9a-f]+)"
)
_STATE_WITH_OTHER_LIMIT = re.compile("The maximum parallelism .{0,200} of the latest checkpoint")
_ERROR = re.compile(r"Error|ERROR|FATAL|Exception")
# Not `\s*`: it would run over the ends of lines, from each line to the end of the text.
_CAUSED_BY = re.compile(r"^[ \t]*Caused by: (?P<cause>.+)$", re.MULTILINE)


def root_cause(text: str) -> str:
    """Return the innermost cause in a stack trace as one line, such as `IOException: disk full`.

    Text that is no stack trace gives its first line that says something.
    """
    causes = [match["cause"] for match in _CAUSED_BY.finditer(cut_end(text))]
    line = causes[-1] if causes else _first_telling_line(text[:ERROR_TEXT])
    return cut_sentence(_without_package(line.strip()[:_LONGEST_LINE]))


def find_missing_class(trace: str, entry_class: str | None) -> str | None:
    """Return that the jar does not have the class to run, one sentence; `None` where it may."""
    if entry_class is None:
        return None
    # To its end: a class that the program needs may begin with the name of the program's own.
    missing = rf"ClassNotFoundException: {re.escape(entry_class)}(?![\w$.])"
    if re.search(missing, cut_end(trace)) is None:
        return None
    return (
        "spec.flink.job.entryClass: expected a class of the job's jar, got "
        f"{entry_class!r}; correct it"
    )


def find_misfitting_state(trace: str) -> str | None:
    """Return why a savepoint does not fit a program, without a full stop; `None` where it may."""
    text = cut_end(trace)
    gone = _STATE_WITHOUT_OPERATOR.search(text)
    if gone is not None:
        return f"its operator {gone['operator']} is gone"
    more = _STATE_WITH_OTHER_LIMIT.search(text)
    return None if more is None else "its maximum parallelism is another one"


def cause_in_log(text: str) -> str:
    """Return the last cause in a log, as one line.

    Where it has no stack trace, the last line that speaks of an error, else its last line.
    """
    text = cut_end(text)
    if _CAUSED_BY.search(text):
        return root_cause(text)
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith((*_EPILOGUE, "\tat ", "\t... "))
    ]
    telling = [line for line in lines if _ERROR.search(line)] or lines
    return (
        cut_sentence(_without_package(telling[-1].strip()[:_LONGEST_LINE]))
        if telling
        else "its log is empty"
    )


def _first_telling_line(text: str) -> str:
    lines = (line.strip() for line in text.splitlines())
    return next(
        (
            line
            for line in lines
            if line and not line.startswith((*_PROLOGUE, "<Exception on server", "at "))
        ),
        "no cause given",
    )


def _without_package(line: str) -> str:
    # A serialised cause repeats its class: `SerializedThrowable: java.io.IOException: full`.
    while (match := _WRAPPED.match(line)) is not None:
        name, message = match["name"], match["message"]
        if message is None:
            return name
        inner = _WRAPPED.match(message)
        # A class alone may be what an exception is about: `ClassNotFoundException: example.Trips`.
        if inner is None or (inner["message"] is None and not _IS_THROWN.search(inner["name"])):
            return f"{name}: {message}"
        line = message
    return line
