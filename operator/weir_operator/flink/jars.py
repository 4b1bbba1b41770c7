"""Find Flink and Java on this machine, and compile jobs against them with plain `javac`.

Flink's jars are those of the PyPI distribution `apache-flink-libraries`, whose package `pyflink`
is found but never imported. A jar remembers a digest of the sources that it was made of and is
compiled again only when they changed, so building is cheap enough to be done on every run.

Does not fetch anything: what is missing is named, with the command that installs it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from weir_operator.errors import PermanentError
from weir_operator.flink_keys import OWN_NAMES, owned_keys
from weir_policies.distribution import install_command

OLDEST_JAVA = 11
"""Flink 2 runs on Java 11 and newer."""

REPOSITORY = Path(__file__).resolve().parents[3]
HELPER = REPOSITORY / "java/dev/weir/Weir.java"
PROGRAMS = tuple(
    REPOSITORY / f"java/dev/weir/{name}.java"
    for name in (
        *("FindState", "ReadGraph", "ReadSavepoint", "RemoveEmptyFolders", "RunScript"),
        "WarmUp",
    )
)
"""What JobManagers run to answer a question of Weir's, and the job that is a SQL script."""
JARS = REPOSITORY / "build/jars"
IN_WHEEL = Path(__file__).parent / "built"
"""Where `make wheel` puts the jars that Weir needs without a checkout."""
EXAMPLES: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        # The source, the trace and the work of all are those of trips.
        "trips": (("trips",), "example.Trips"),
        "routes": (("trips", "routes"), "example.Routes"),
        "wordcount": (("trips", "wordcount"), "example.WordCount"),
        "hotitems": (("trips", "hotitems"), "example.HotItems"),
        "nexmark": (("trips", "nexmark"), "example.Nexmark"),
    }
)
"""The example jobs by name: folders of their sources, and the entry class."""

_TAB = "\t"
KEYS: Mapping[str, bytes] = MappingProxyType(
    {
        "weir-keys.tsv": "\n".join(
            (
                *(f"refused\t{key}\t{remedy}" for key, remedy in owned_keys().items()),
                *(f"own\t{key}\t{_TAB.join(own)}" for key, own in sorted(OWN_NAMES.items())),
            )
        ).encode()
    }
)
"""What `RunScript` knows of the keys that a script may set."""
_NOTHING: Mapping[str, bytes] = MappingProxyType({})
_DIGEST = "META-INF/weir-sources.sha256"
_TIME_LIMIT = 900.0  # seconds; javac takes 200 at ten times the usual load; Maven may download


def flink_home() -> Path:
    """Return the folder of the installed Flink, which holds `lib`, `plugins` and `bin`.

    The environment's `WEIR_FLINK_HOME` names another one.

    Raises:
        PermanentError: The extra `flink` is not installed, or there is no Flink in that folder.
    """
    chosen = os.environ.get("WEIR_FLINK_HOME")
    if chosen:
        if not (Path(chosen) / "lib").is_dir():
            raise PermanentError(
                f"WEIR_FLINK_HOME: expected a folder of Flink with lib in it, got {chosen!r}"
            )
        return Path(chosen)
    spec = importlib.util.find_spec("pyflink")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(location) / "lib").is_dir():
            return Path(location)
    raise PermanentError(f"Flink is not installed here: run {install_command('flink')}")


def class_path(home: Path | None = None) -> str:
    """Return Flink's own jars as a Java class path, in a stable order.

    Args:
        home: The folder of a Flink; `None` takes the installed one.
    """
    lib = (home or flink_home()) / "lib"
    return os.pathsep.join(str(jar) for jar in sorted(lib.glob("*.jar")))


def find_java() -> Path:
    """Return the `java` to run Flink with: that of `JAVA_HOME`, else the first on `PATH`.

    Raises:
        PermanentError: There is none, or it is older than Flink needs.
    """
    java = _find_tool("java")
    answer = run_tool([str(java), "-version"]).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', answer)  # Java 8 calls itself 1.8
    if version is None:
        raise PermanentError(f"{java} -version does not print a version: {_first_line(answer)!r}")
    if int(version[1]) < OLDEST_JAVA:
        raise PermanentError(
            f"{java} is Java {version[1]}: Flink needs Java {OLDEST_JAVA} or newer, "
            f"install it or point JAVA_HOME to it"
        )
    return java


def find_own_jar(name: str) -> Path:
    """Return a jar of Weir's own: from its image, built in a checkout, or from its wheel.

    Raises:
        PermanentError: It is in no place.
    """
    places = (Path(sys.prefix) / "share/weir" / name, JARS / name, IN_WHEEL / name)
    for place in places:
        if place.is_file():
            return place
    raise PermanentError(f"Expected {name} in {JARS}, got nothing: run `make jars`")


def build_jar(
    sources: Sequence[Path],
    jar: Path,
    *,
    entry_class: str | None = None,
    resources: Mapping[str, bytes] = _NOTHING,
    home: Path | None = None,
) -> Path:
    """Compile Java sources into a jar, unless the jar was built from exactly these.

    Args:
        sources: Java files; a job that uses the helper lists `HELPER` among them.
        jar: Where the jar goes; its folder is made. Replaced at once, never seen half-written.
        entry_class: What the jar's manifest names as its main class, if any.
        resources: What the job reads from its jar, by the names there.
        home: The folder of the Flink to compile against; `None` takes the installed one.

    Returns:
        The jar's path.

    Raises:
        PermanentError: There is no compiler, a source is missing, or one does not compile; the
            compiler's first message is reported.
    """
    manifest = {"Main-Class": entry_class} if entry_class else {}
    digest = _digest(sources, resources, manifest, home or flink_home())
    if _digest_in(jar) == digest:
        return jar
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix=f".{jar.stem}-") as folder:
        classes = Path(folder) / "classes"
        _compile(sources, classes, class_path(home))
        unfinished = Path(folder) / jar.name
        for name, content in resources.items():
            (classes / name).write_bytes(content)
        _pack(classes, unfinished, manifest=manifest, digest=digest)
        unfinished.replace(jar)
    return jar


def build_example(name: str, folder: Path = JARS) -> Path:
    """Build an example job, with the helper inside; return the jar, named for the example.

    Raises:
        PermanentError: As `build_jar`.
    """
    folders, entry_class = EXAMPLES[name]
    sources, queries = (
        [
            path
            for each in folders
            for path in sorted((REPOSITORY / "examples" / each).glob(pattern))
        ]
        for pattern in ("*.java", "*.sql")
    )
    return build_jar(
        [HELPER, *sources],
        folder / f"{name}.jar",
        entry_class=entry_class,
        resources={path.name: path.read_bytes() for path in queries},
    )


def build_programs() -> Path:
    """Build the jar of what JobManagers run for Weir.

    Raises:
        PermanentError: As `build_jar`.
    """
    return build_jar(PROGRAMS, JARS / "weir-programs.jar", resources=KEYS)


def build_all() -> tuple[Path, ...]:
    """Build the repository's own jars: the helper, the example jobs, and one without the helper."""
    foreign = sorted((REPOSITORY / "examples/foreign").glob("*.java"))
    return (
        build_jar([HELPER], JARS / "weir.jar"),
        build_programs(),
        *(build_example(name) for name in EXAMPLES),
        build_jar(foreign, JARS / "foreign.jar", entry_class="example.Foreign"),
    )


def _find_tool(name: str) -> Path:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on PATH"
        raise PermanentError(
            f"No {name} {where}: install a JDK, version {OLDEST_JAVA} or newer, "
            f"or point JAVA_HOME to one"
        )
    return Path(found)


def run_tool(command: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program of Java's or Maven's to its end, whatever that is.

    Raises:
        PermanentError: It does not start, or does not end in time.
    """
    try:
        return subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=_TIME_LIMIT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PermanentError(
            f"Expected {command[0]} to end within {_TIME_LIMIT:g} s: run it by hand to see why it "
            "hangs, or try again on a quieter machine"
        ) from error
    except OSError as error:
        raise PermanentError(f"Cannot run {command[0]}: {error}") from error


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _digest(
    sources: Sequence[Path],
    resources: Mapping[str, bytes],
    manifest: Mapping[str, str],
    home: Path,
) -> str:
    digest = hashlib.sha256(f"{home} {dict(manifest)} {dict(resources)}".encode())
    for source in sources:
        try:
            digest.update(b"\0" + source.name.encode() + b"\0" + source.read_bytes())
        except OSError as error:
            raise PermanentError(f"Cannot read {source}: {error.strerror}") from error
    return digest.hexdigest()


def _digest_in(jar: Path) -> str | None:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.read(_DIGEST).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None  # absent, foreign or damaged: to be built


def _compile(sources: Sequence[Path], classes: Path, libraries: str) -> None:
    javac = _find_tool("javac")
    options = ["--release", str(OLDEST_JAVA), "-encoding", "UTF-8", "-nowarn", "-proc:none"]
    paths = [str(source) for source in sources]
    result = run_tool([str(javac), *options, "-cp", libraries, "-d", str(classes), *paths])
    if result.returncode:
        raise PermanentError(f"javac: {_first_line(result.stderr or result.stdout)}")


def _pack(classes: Path, jar: Path, *, manifest: Mapping[str, str], digest: str) -> None:
    lines = {"Manifest-Version": "1.0", **manifest}
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(  # Java looks for it at the front
            "META-INF/MANIFEST.MF", "".join(f"{key}: {value}\n" for key, value in lines.items())
        )
        archive.writestr(_DIGEST, digest)
        for path in sorted(each for each in classes.rglob("*") if each.is_file()):
            archive.write(path, path.relative_to(classes))


if __name__ == "__main__":
    for built in build_all():
        print(built.relative_to(REPOSITORY))
