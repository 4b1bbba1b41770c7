"""etcd and kube-apiserver for the tests: given, kept from an earlier run, or built from source.

Taken from the folder that `KUBEBUILDER_ASSETS` names; else from `build/control-plane`; else built
there from the Go modules that `go/go.mod` pins, once for each content of that file. A cold build
downloads some 100 MB from the Go module proxy and takes some four minutes on two cores.

Go that is older than 1.21 (Debian 12 has 1.19) cannot change to the toolchain that a module asks
for. It can download modules, though, and Go's toolchains are modules: so it fetches a newer self.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_REPOSITORY = Path(__file__).parents[2]
_MODULE = Path(__file__).parent / "go"

_SOURCES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
"""Package of each program."""

_OLDEST_GO_THAT_CHANGES_ITSELF = (1, 21)
_BOOTSTRAP = "golang.org/toolchain@v0.0.1-go1.24.6"
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 15.0


class MissingProgramError(Exception):
    """A program that the tests need is not on this machine."""


@dataclass(frozen=True)
class Assets:
    """The programs of a control plane."""

    etcd: Path
    kube_apiserver: Path


def report_on_stderr(sentence: str) -> None:
    """Tell how far a build has come."""
    print(f"weir: {sentence}", file=sys.stderr, flush=True)


def find_or_build_assets(
    environment: Mapping[str, str] = os.environ, say: Callable[[str], None] = report_on_stderr
) -> Assets:
    """Return the programs, built first where this machine has none.

    Args:
        environment: Where `KUBEBUILDER_ASSETS` is looked up.
        say: Told in a sentence what is being built, and every few seconds how far it has come.

    Raises:
        MissingProgramError: They are not where `KUBEBUILDER_ASSETS` says, or must be built and
            there is no Go.
        RuntimeError: The build failed; holds the end of what it wrote.
    """
    given = environment.get("KUBEBUILDER_ASSETS")
    if given:
        missing = [name for name in _SOURCES if not (Path(given) / name).is_file()]
        if missing:
            raise MissingProgramError(
                f"expected {', '.join(missing)} in KUBEBUILDER_ASSETS={given}, found nothing: "
                "correct the path, or unset it to have them built"
            )
        return _assets(Path(given))
    pinned = (_MODULE / "go.mod").read_bytes() + (_MODULE / "go.sum").read_bytes()
    folder = _REPOSITORY / "build/control-plane" / hashlib.sha256(pinned).hexdigest()[:12]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.with_suffix(".lock")):  # a second session waits, and finds them built
        if not folder.is_dir():
            _build(folder, say)
    return _assets(folder)


def build_program(
    *, module: Path, package: str, output: Path, say: Callable[[str], None] = report_on_stderr
) -> None:
    """Build one program of another Go module, unless it is there; a second session waits for it.

    Args:
        module: Folder of the `go.mod` that pins it.
        package: What is built.
        output: Where the program goes.
        say: As above.

    Raises:
        MissingProgramError: There is no Go.
        RuntimeError: The build failed; holds the end of what it wrote.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(output.with_suffix(".lock")):
        if output.is_file():
            return
        unfinished = output.with_suffix(".unfinished")
        command = [_go_that_changes_itself(say), "build", "-v", "-ldflags", "-s -w"]
        _run_with_signs_of_life(
            [*command, "-o", str(unfinished), package],
            f"building {output.name} from its Go modules",
            say,
            module=module,
        )
        unfinished.rename(output)


def _assets(folder: Path) -> Assets:
    return Assets(etcd=folder / "etcd", kube_apiserver=folder / "kube-apiserver")


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, say: Callable[[str], None]) -> None:
    """Build both programs beside `folder` and move them there when they are whole."""
    go = _go_that_changes_itself(say)
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for name, package in _SOURCES.items():
        output = unfinished / name
        command = [go, "build", "-v", "-ldflags", _linker_flags(), "-o", str(output), package]
        _run_with_signs_of_life(command, f"building {name} from its Go modules", say)
    unfinished.rename(folder)


def _linker_flags() -> str:
    """Return what makes kube-apiserver know its own version, and leaves debug symbols out.

    Without a version it calls itself v0.0.0-master and takes no part in version checks.
    """
    text = (_MODULE / "go.mod").read_text()
    found = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", text, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"expected the version of k8s.io/kubernetes in {_MODULE / 'go.mod'}")
    version, major, minor = found.groups()
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return "-s -w " + " ".join(
        f"-X k8s.io/component-base/version.{name}={value}" for name, value in variables.items()
    )


def _environment() -> dict[str, str]:
    """Return the environment that the build runs in: no C, no trace of this machine."""
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath -buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "auto",
    }


def _go_that_changes_itself(say: Callable[[str], None]) -> str:
    """Return the path of a Go that can download the toolchain that `go.mod` asks for."""
    go = shutil.which("go")
    if go is None:
        raise MissingProgramError(
            "Go was not found, which etcd and kube-apiserver are built with: install it (on Debian "
            "golang-go), or name a folder with both in KUBEBUILDER_ASSETS"
        )
    answer = subprocess.run([go, "env", "GOVERSION", "GOOS", "GOARCH"], env=_environment(),
                            capture_output=True, text=True, check=True, cwd="/")  # fmt: skip
    version, system, machine = answer.stdout.split()
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers >= _OLDEST_GO_THAT_CHANGES_ITSELF:
        return go
    return _download_toolchain(go, f"{_BOOTSTRAP}.{system}-{machine}", say)


def _download_toolchain(go: str, module: str, say: Callable[[str], None]) -> str:
    """Return the `go` inside a toolchain's module, downloaded by an older `go`."""
    say(f"downloading {module.partition('@v0.0.1-')[2]}, the Go here is too old")
    answer = subprocess.run(
        [go, "mod", "download", "-json", module],
        env=_environment() | {"GOFLAGS": "-mod=mod"},
        capture_output=True, text=True, check=False, cwd=_MODULE.parent,
    )  # fmt: skip
    if answer.returncode != 0:
        raise RuntimeError(f"expected to download {module}:\n{answer.stdout}{answer.stderr}")
    # A module's files cannot be run, and stand in a cache that is read-only: work with a copy.
    source = Path(json.loads(answer.stdout)["Dir"])
    copy = _REPOSITORY / "build/control-plane" / source.name
    shutil.copytree(source, copy, copy_function=shutil.copyfile, dirs_exist_ok=True)
    for programs in (copy / "bin", copy / "pkg/tool"):
        for file in programs.rglob("*"):
            file.chmod(0o755)
    return str(copy / "bin/go")


def _run_with_signs_of_life(
    command: list[str], what: str, say: Callable[[str], None], *, module: Path = _MODULE
) -> None:
    """Run a build, and tell now and then how many packages it has compiled.

    Raises:
        RuntimeError: It failed; holds the end of what it wrote.
    """
    lines: list[str] = []
    began = time.monotonic()
    with subprocess.Popen(command, cwd=module, env=_environment(), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:  # fmt: skip
        assert process.stdout is not None
        reader = threading.Thread(target=lines.extend, args=(process.stdout,), daemon=True)
        reader.start()
        say(what)
        while reader.is_alive():
            reader.join(_SECONDS_BETWEEN_SIGNS_OF_LIFE)
            say(f"{what}: {len(lines)} packages, {time.monotonic() - began:.0f} s")
    if process.returncode != 0:
        raise RuntimeError(f"{what} failed:\n{''.join(lines[-30:])}")
