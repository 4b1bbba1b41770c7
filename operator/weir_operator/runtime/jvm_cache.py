"""What a TaskManager's JVM needs that takes a JVM to find out: made once, kept in a cache folder.

Memory arguments depend on memory settings only. They are computed from a configuration that holds
nothing else, so no pin can end up on a command line, where it would override `config.yaml`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.causes import root_cause
from weir_operator.flink.commands import (
    Installation,
    MemoryArguments,
    memory_command,
    parse_memory_arguments,
)
from weir_operator.flink.configuration import render_yaml
from weir_operator.runtime.files import read_if_present, storing, write_atomically

MEMORY_LIMIT = 60.0
"""Seconds for the JVM that works out memory; it takes half of one on an idle machine."""
_MEMORY_KEYS = ("taskmanager.memory.", "taskmanager.cpu.", "taskmanager.numberOfTaskSlots")


async def memory_arguments(
    installation: Installation, *, cache: Path, configuration: Mapping[str, str]
) -> MemoryArguments:
    """Return the memory arguments of a TaskManager with this configuration.

    Args:
        installation: Java and Flink.
        cache: Folder in which the answer is kept.
        configuration: A TaskManager's configuration; only its memory and CPU keys count.

    Raises:
        PermanentError: Flink cannot divide the memory so; its reason is given.
        TemporaryError: The JVM took too long.
    """
    relevant = {
        key: value for key, value in sorted(configuration.items()) if key.startswith(_MEMORY_KEYS)
    }
    digest = hashlib.sha256(
        json.dumps([relevant, str(installation.java), installation.class_path()]).encode()
    ).hexdigest()[:16]
    file = cache / f"memory-{digest}.json"
    known = read_if_present(file)
    if known is not None:
        found = json.loads(known)
        return MemoryArguments(jvm=tuple(found["jvm"]), dynamic=tuple(found["dynamic"]))
    with storing(cache):
        cache.mkdir(parents=True, exist_ok=True)
    arguments = await _compute(installation, relevant)
    write_atomically(file, json.dumps(asdict(arguments)))
    return arguments


async def _compute(installation: Installation, configuration: Mapping[str, str]) -> MemoryArguments:
    with tempfile.TemporaryDirectory(prefix="weir-memory-") as folder:
        (Path(folder) / "config.yaml").write_text(render_yaml(configuration), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *memory_command(installation, Path(folder)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(MEMORY_LIMIT):
                output = (await process.communicate())[0].decode(errors="replace")
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise TemporaryError(
                f"Flink did not divide a TaskManager's memory within {MEMORY_LIMIT:g} s"
            ) from error
    try:
        return parse_memory_arguments(output)
    except ValueError as error:
        settings = ", ".join(f"{key}: {value}" for key, value in configuration.items())
        raise PermanentError(
            f"Expected memory that a TaskManager can run with, got {{{settings}}}:"
            f" {root_cause(output)}; raise the pool's memory"
        ) from error
