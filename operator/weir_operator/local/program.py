"""The program of a job on this machine: a jar, a SQL script or a PyFlink file.

A manifest may name any of them. A file alone is enough, too: `weir local FILE` and `weir graph
FILE` then use the manifest that `default_manifest` makes for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from weir_operator.errors import PermanentError
from weir_operator.flink import programs
from weir_operator.flink.jars import find_own_jar
from weir_operator.flink.job_graph import Plan
from weir_operator.flink.scripts import find_python_jar, python_configuration
from weir_operator.streamapp.loading import find_jar, load_manifest
from weir_operator.streamapp.models import API_VERSION, KIND, StreamApp
from weir_simulator.naming import plain_name

_SECTIONS = {".jar": "jar", ".sql": "sql", ".py": "python"}
"""Field of `flink.job` by the file's suffix."""
_POOL = "local"
_LONGEST_NAME = 40
_MEMORY = "1Gi"
_INTERVAL = "10s"
_RESTART_BUDGET = {"size": 20, "refillEvery": "2m"}
"""A trial takes minutes, and its load changes as often as that of a job in a day."""
_ADVISED_BOUND = "1s"
_FEWEST_REPLICAS = 4
"""Room for a busy vertex, what lies before and behind it, and one more replica."""
_DEFAULT_REPLICAS = 10
"""The manifest's own default, which is not written."""


def is_program(file: Path) -> bool:
    """Return whether the file is a program, by its name; anything else is a manifest."""
    return file.suffix.lower() in _SECTIONS


def load_app(manifest: Path) -> StreamApp:
    """Return the StreamApp of a manifest, with the text of its SQL script.

    The text is read once: a script that somebody edits while its job runs must not be what the next
    restart submits.

    Raises:
        InvalidStreamAppError: The manifest cannot be right.
        PermanentError: The script cannot be read.
    """
    return with_script(load_manifest(manifest), manifest)


def with_script(app: StreamApp, manifest: Path) -> StreamApp:
    """Return the StreamApp with the text of the SQL script that it names, if it names one.

    Raises:
        PermanentError: The script cannot be read.
    """
    job = app.spec.flink.job
    if job is None or job.sql is None or job.sql.file is None:
        return app
    path = manifest.parent / job.sql.file
    try:
        text = path.read_text(encoding="utf-8-sig")  # an editor may have put a mark before it
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PermanentError(
            f"spec.flink.job.sql.file: expected a text in UTF-8, got {job.sql.file!r} ({reason}); "
            "correct the path, relative to the manifest"
        ) from error
    sql = job.sql.model_copy(update={"file": path.name, "script": text})
    flink = app.spec.flink.model_copy(update={"job": job.model_copy(update={"sql": sql})})
    return app.model_copy(update={"spec": app.spec.model_copy(update={"flink": flink})})


def find_program(app: StreamApp, manifest: Path) -> Path:
    """Return the jar on this machine that has the job's entry class.

    Raises:
        InvalidStreamAppError: The StreamApp names no program, or there is no such file.
        PermanentError: What runs scripts is not installed.
    """
    job = app.spec.flink.job
    if job is not None and job.sql is not None:
        return find_own_jar(programs.JAR)
    if job is not None and job.python is not None:
        if not (manifest.parent / job.python.file).is_file():
            raise PermanentError(
                f"spec.flink.job.python.file: expected a file, got {job.python.file!r}, which does "
                "not exist; correct its path, relative to the manifest"
            )
        return find_python_jar()
    return find_jar(app, manifest)


def flink_configuration(app: StreamApp) -> Mapping[str, str]:
    """Return Flink's configuration on this machine: the user's keys, and Python's interpreter.

    Raises:
        PermanentError: A PyFlink program has no interpreter with PyFlink.
    """
    config = dict(app.spec.flink.config or {})
    job = app.spec.flink.job
    if job is None or job.python is None:
        return config
    return config | python_configuration(config)


def default_manifest(
    file: Path, *, entry_class: str | None = None, arguments: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a manifest for a program alone: one pool, which is this machine, and only advice.

    It names no operators: the job begins as one, and busy vertices get their own.

    Args:
        file: A jar, a SQL script or a PyFlink program.
        entry_class: Class whose `main` to run; `None` takes the jar's own.
        arguments: Of the program; names of files become absolute.

    Raises:
        PermanentError: There is no such file, or it is no program by its name.
    """
    section = _SECTIONS.get(file.suffix.lower())
    if section is None or not file.is_file():
        what = "which does not exist" if section else "which is none of these by its name"
        raise PermanentError(
            f"Expected a manifest, a jar, a SQL script or a PyFlink program, got {str(file)!r}, "
            f"{what}; correct the path"
        )
    path = str(file.resolve())
    job: dict[str, Any] = {section: path if section == "jar" else {"file": path}}
    if entry_class is not None:
        job["entryClass"] = entry_class
    if arguments:
        job["args"] = [str(Path(each).resolve()) if _is_file(each) else each for each in arguments]
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": plain_name(file.stem, longest=_LONGEST_NAME, otherwise="job")},
        "spec": {
            "mode": "Advise",
            "flink": {"job": job},
            "objective": {"responseTime": _ADVISED_BOUND},
            "nodePools": [
                {"name": _POOL, "sizes": ["1"], "memory": _MEMORY, "maxReplicas": _most_replicas()}
            ],
            # What the load needs now: a trial is too short to learn how the load changes.
            "operatorManager": {"interval": _INTERVAL, "policy": {"name": "queueing"}},
            "applicationManager": {"restartBudget": dict(_RESTART_BUDGET)},
            # Its tasks wait for Python to import its libraries.
            **({"rescale": {"submitDeadline": "2m"}} if section == "python" else {}),
        },
    }


def operators_of(plan: Plan) -> list[dict[str, Any]]:
    """Return the operators of a program as a manifest lists them."""
    limits = {vertex.operator: vertex.limit for vertex in plan.vertices}
    return [
        {
            "name": name,
            **({"maxReplicas": limits[name]} if limits[name] < _DEFAULT_REPLICAS else {}),
        }
        for name in plan.operators
    ]


def with_objective(manifest: Mapping[str, Any], bound: str) -> dict[str, Any]:
    """Return a default manifest that scales the job to meet a bound on the response time."""
    objective = {"responseTime": bound}
    return {**manifest, "spec": {**manifest["spec"], "mode": "Auto", "objective": objective}}


def write_manifest(manifest: Mapping[str, Any], folder: Path) -> Path:
    """Write a default manifest into the folder of Weir's state; return its path.

    Raises:
        OSError: The folder does not take it.
    """
    path = folder / f"{manifest['metadata']['name']}.yaml"
    head = "# Written by `weir local`, again at each start: copy it to change it.\n"
    path.write_text(head + yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return path


def _most_replicas() -> int:
    """Return how many TaskManagers this machine runs: two per core, of which one may be idle."""
    return max(_FEWEST_REPLICAS, 2 * (os.cpu_count() or 1))


def _is_file(argument: str) -> bool:
    return not argument.startswith("-") and Path(argument).is_file()
