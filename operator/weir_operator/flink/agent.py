"""Weir's Java agent: where its jar is, and how it is built in a checkout.

The agent (`java/agent`) gives jobs that know nothing of Weir an operator per vertex, and measures
service times. Its jar is on no class path of a job: the JVMs of Flink's processes load it. Maven
builds it, because ByteBuddy goes into it under a package of its own. Equal sources make an equal
jar, so its digest tells which agent a process has.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from weir_operator.errors import PermanentError
from weir_operator.flink.jars import JARS, REPOSITORY, find_own_jar, flink_home, run_tool

JAR = "weir-agent.jar"
SOURCES = REPOSITORY / "java/agent"
_STAMP = "weir-agent.sources"
DEFAULT_PARALLELISM = 2
"""Of a job that the agent pins. Flink chains functions of equal parallelism, so a program that
fixes some at 1 has other vertices at the default 1 than at any other, and their state is lost."""
PINNED = {"weir.pin": "true", "parallelism.default": str(DEFAULT_PARALLELISM)}
"""Configuration of a request for a job that the agent is to pin."""
KEY_COUNTS = "weir_keys"
"""The agent's text of a task that sends records by key, which no reporter of numbers has."""
KEY_SALT = "weir.key-salt"
"""Text that goes into the hashes of keys."""
REPORT_KEYS = "weir.report-keys"
"""`true`: keys are reported as text, else as hashes."""


def find_agent() -> Path | None:
    """Return the agent's jar, installed beside Weir or built in a checkout; `None` without."""
    with suppress(PermanentError):
        return find_own_jar(JAR)
    return None


def digest_of(jar: Path) -> str:
    """Return the SHA-256 of the agent's jar, hexadecimal."""
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def build_agent() -> Path:
    """Build the agent with Maven, unless its jar is already made of these sources; return the jar.

    Raises:
        PermanentError: Maven is missing, or the build or one of the agent's tests fails.
    """
    jar, stamp = JARS / JAR, JARS / _STAMP
    digest = _digest()
    if jar.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return jar
    maven = shutil.which("mvn")
    if maven is None:
        raise PermanentError("No mvn on PATH: install Maven (on Debian maven)")
    [dist] = (flink_home() / "lib").glob("flink-dist-*.jar")
    JARS.mkdir(parents=True, exist_ok=True)
    # A folder of its own: several tests may find the jar stale at once.
    with tempfile.TemporaryDirectory(dir=JARS, prefix=".agent-") as outputs:
        options = ["--quiet", "--batch-mode", f"-Dflink.dist={dist}", f"-Doutputs={outputs}"]
        built = run_tool([maven, *options, "package"], cwd=SOURCES)
        if built.returncode:
            lines = [line for line in built.stdout.splitlines() if "ERROR" in line]
            raise PermanentError(f"mvn: {' '.join(lines[:3]) or built.stderr.strip()}")
        (Path(outputs) / JAR).replace(jar)
    stamp.write_text(digest, encoding="utf-8")
    return jar


def _digest() -> str:
    digest = hashlib.sha256()
    for source in sorted((SOURCES / "pom.xml", *(SOURCES / "src").rglob("*.java"))):
        digest.update(str(source.relative_to(SOURCES)).encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    print(build_agent().relative_to(REPOSITORY))
