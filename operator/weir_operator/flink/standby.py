"""The agent with which the JVM of a TaskManager waits for its operator: a standby TaskManager.

Loaded by one option (`java/dev/weir/Standby.java`), so a waiting JVM is started as any other, with
the same class path, archive of classes and main class. Flink reads which operator it serves from
`config.yaml`, which such a JVM gets last.
"""

from __future__ import annotations

from pathlib import Path

JAR = "weir-standby.jar"
OPERATOR_FILE = "operator"
"""Beside `config.yaml`, written before it: the operator's name, for `WEIR_OPERATOR`."""
READY_FILE = "ready"
"""Which a JVM that waits for files writes once it is warm."""


def waiting_options(
    jar: Path | str,
    *,
    configuration_dir: Path | str,
    temporary: Path | str,
    port: int | None = None,
) -> tuple[str, ...]:
    """Return the options of a JVM that waits. Pure.

    Args:
        jar: The agent.
        configuration_dir: Where `config.yaml` will be.
        temporary: For files of the warm-up.
        port: Where a request brings it; `None` where somebody else writes the file.
    """
    return (
        f"-javaagent:{jar}",
        f"-Dweir.standby.configuration={configuration_dir}",
        f"-Dweir.standby.temporary={temporary}",
        *(() if port is None else (f"-Dweir.standby.port={port}",)),
    )
