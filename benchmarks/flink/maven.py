"""Builds jars of Java programs that need more than Flink, with Maven, once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from weir_operator.flink.jars import JARS

MAVEN_LIMIT = 900.0
"""Seconds; a first build fetches some 60 MB."""


def package(sources: Path, name: str, *, properties: Mapping[str, str]) -> Path:
    """Build a program; return its jar."""
    digest = digest_of([sources / "pom.xml", *sorted(sources.rglob("*.java"))], properties)
    jar = JARS / f"{name}-{digest}.jar"
    if not jar.exists():
        JARS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=JARS, prefix=f".{name}-") as outputs:
            given = {**properties, "outputs": outputs}
            options = [f"-D{key}={value}" for key, value in given.items()]
            run_maven(sources / "pom.xml", "package", *options)
            (Path(outputs) / f"{name}.jar").replace(jar)
    return jar


def digest_of(files: Iterable[Path], properties: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a short digest of what files hold, and of the properties of a build."""
    digest = hashlib.sha256(repr(sorted(properties.items())).encode())
    for file in files:
        digest.update(b"\0" + file.read_bytes())
    return digest.hexdigest()[:8]


def run_maven(pom: Path, *arguments: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("No mvn on PATH: install Maven (on Debian maven)")
    done = subprocess.run(
        [maven, "--quiet", "--batch-mode", "--file", str(pom), *arguments],
        capture_output=True,
        text=True,
        timeout=MAVEN_LIMIT,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise RuntimeError(f"mvn: {' '.join(lines[:3]) or done.stderr.strip()}")
