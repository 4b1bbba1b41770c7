"""Jobs that are a script: which class of which jar runs a SQL script or a PyFlink program.

A SQL script is run by Weir's own `dev.weir.RunScript` (`java/dev/weir/RunScript.java`), which takes
its text, or its path, as an argument. The text is therefore part of the revision: restarts,
upgrades and rollbacks find it, and no file has to be carried anywhere. A PyFlink program is run by
Flink's own `PythonDriver`, which starts the Python interpreter that the configuration names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from weir_operator.errors import PermanentError
from weir_operator.flink.jars import flink_home

SQL = "dev.weir.RunScript"
PYTHON = "org.apache.flink.client.python.PythonDriver"
PYTHON_JAR = "flink-python-*.jar"
"""In the folder `opt` of Flink; has `PYTHON` and what TaskManagers need for Python functions."""
CLIENT = "python.client.executable"
WORKER = "python.executable"

FIND_PYFLINK = (
    'import importlib.util as u, sys; sys.exit(u.find_spec("pyflink.java_gateway") is None)'
)
"""Python that ends with 0 where the interpreter has PyFlink. Weir's own environment has a folder
`pyflink` with Flink's jars, and nothing of PyFlink in it."""

_REFUSED = re.compile(r"weir-script: (.+)")
_FAILED = re.compile(r"weir-script-failed: (.+)")
_PRINTED = re.compile(r"PythonDriver +- (.*)")
_LONGEST = 500
_TIME_LIMIT = 60.0  # seconds for an interpreter to look for a module; on a busy machine it takes 2


def is_script(entry_class: str | None) -> bool:
    """Return whether this class runs a script, which knows nothing of Weir's arguments."""
    return entry_class in (SQL, PYTHON)


def read_refusal(trace: str) -> str | None:
    """Return why a SQL script cannot be a job; `None` where a trace is of something else."""
    return _read_sentence(_REFUSED, trace)


def read_failure(trace: str) -> str | None:
    """Return what a SQL script failed at that may succeed later; `None` where it did not."""
    return _read_sentence(_FAILED, trace)


def _read_sentence(mark: re.Pattern[str], trace: str) -> str | None:
    found = mark.search(trace)
    return None if found is None else f"spec.flink.job.sql: {found[1].strip()[:_LONGEST]}"


def read_python_error(log: str) -> str | None:
    """Return the last line that a Python program printed before it ended; `None` without any.

    Args:
        log: Of the JobManager; Flink's `PythonDriver` writes there what the program prints.
    """
    said = [match[1].strip() for match in _PRINTED.finditer(log)]
    ends = [place for place, line in enumerate(said) if "Python Process Exited" in line]
    printed = [line for line in said[: ends[-1]] if line.strip(" -")] if ends else []
    return printed[-1] if printed else None


def find_python_jar() -> Path:
    """Return Flink's jar for Python programs on this machine.

    Raises:
        PermanentError: This Flink has none.
    """
    folder = flink_home() / "opt"
    found = sorted(folder.glob(PYTHON_JAR))
    if not found:
        raise PermanentError(
            f"spec.flink.job.python: expected {PYTHON_JAR} in {folder}, got nothing; copy it there "
            "from Flink's distribution"
        )
    return found[-1]


def python_configuration(config: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that name the Python interpreter on this machine, checked.

    Args:
        config: The user's keys. Without them, Flink's own variable PYFLINK_CLIENT_EXECUTABLE names
            the interpreter, else it is the one that runs Weir.

    Raises:
        PermanentError: The interpreter does not run, or has no PyFlink.
    """
    client = config.get(CLIENT) or os.environ.get("PYFLINK_CLIENT_EXECUTABLE") or sys.executable
    chosen = {CLIENT: client, WORKER: config.get(WORKER) or client}
    for key, interpreter in chosen.items():
        _check_interpreter(key, interpreter)
    return chosen


def _check_interpreter(key: str, interpreter: str) -> None:
    try:
        answer = subprocess.run(
            [interpreter, "-c", FIND_PYFLINK],
            capture_output=True,
            timeout=_TIME_LIMIT,
            check=False,
        )
        failure = "" if answer.returncode == 0 else "which has no PyFlink"
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = f"which does not run ({error})"
    if failure:
        raise PermanentError(
            f'spec.flink.config["{key}"]: expected a Python interpreter with the package '
            f"apache-flink, got {interpreter!r}, {failure}; install apache-flink in a virtual "
            f"environment, in Flink's version, and name its interpreter here"
        )
