"""Reads what a job's jar on this machine says of its program, before a JobManager is started.

Of a class only the constants are looked at, because a class file names there all that it uses.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from weir_operator.errors import PermanentError

_MANIFEST = "META-INF/MANIFEST.MF"
_MAIN_CLASS = re.compile(r"^(?:Main-Class|program-class)[ \t]*:[ \t]*(\S+)", re.MULTILINE)
_MAIN = (b"\x01\x00\x04main", b"\x01\x00\x16([Ljava/lang/String;)V")
"""The name and the type of a program's `main`, as constants of a class."""
_VERSION_2 = b"org/apache/flink/datastream/api/ExecutionEnvironment"
MOST_NAMED = 8
"""Classes that a message names."""
MOST_READ = 5_000
"""Classes that are looked at; a jar with its libraries has tens of thousands."""


def refuse_unsuitable_jar(jar: Path, entry_class: str | None) -> None:
    """Refuse a jar that has no program which Weir can run.

    Args:
        jar: A file.
        entry_class: Class whose `main` to run; `None` takes the jar's own.

    Raises:
        PermanentError: It is no jar, names no class to run, or its program uses DataStream V2.
    """
    try:
        with zipfile.ZipFile(jar) as file:
            _refuse_unsuitable_program(file, jar, entry_class)
    except (zipfile.BadZipFile, OSError) as error:
        raise PermanentError(f"{jar} is no jar ({error}); name the file that the build made") from (
            error
        )


def _refuse_unsuitable_program(file: zipfile.ZipFile, jar: Path, entry_class: str | None) -> None:
    names = set(file.namelist())
    if entry_class is None and _MANIFEST in names:
        found = _MAIN_CLASS.search(file.read(_MANIFEST).decode("utf-8", "replace"))
        entry_class = None if found is None else found[1]
    if entry_class is None:
        programs = _find_programs(file)
        shown = ", ".join(programs[:MOST_NAMED])
        more = f" and {len(programs) - MOST_NAMED} more" if len(programs) > MOST_NAMED else ""
        has = f"; classes with a main in it: {shown}{more}" if programs else ""
        raise PermanentError(
            f"{jar.name} names no main class: add --entry-class, or spec.flink.job.entryClass{has}"
        )
    entry = f"{entry_class.replace('.', '/')}.class"
    if entry in names and _VERSION_2 in file.read(entry):
        raise PermanentError(
            f"{entry_class} is a program of the DataStream API V2, which Weir cannot read: use the "
            "DataStream API (V1), or SQL"
        )


def _find_programs(file: zipfile.ZipFile) -> list[str]:
    classes = [name for name in file.namelist() if name.endswith(".class") and "$" not in name]
    found = []
    for name in classes[:MOST_READ]:
        content = file.read(name)
        if all(constant in content for constant in _MAIN):
            found.append(name.removesuffix(".class").replace("/", "."))
    return sorted(found)
