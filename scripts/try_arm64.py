#!/usr/bin/env python3
"""Runs Weir's simulator as an arm64 processor would, and compares its results with this one's.

    scripts/try_arm64.py FOLDER [POLICY...]

An emulator (`qemu-aarch64-static`, of Debian's `qemu-user-static`) runs Debian's Python for arm64
with PyPI's packages for it, in the versions of constraints.txt. What policies compute with is
compiled there, as on a real processor. This shows that the packages work together and that decisions
are the same, to the last digit; it says nothing of speed.

FOLDER is kept, so that a second run downloads nothing. Must run in the environment of `make env`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from check_arm64 import PLATFORMS

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("policies", "simulator", "operator", "pipelines", "cli")
EXPERIMENT = ROOT / "examples/experiments/taxi-a3.yaml"
POLICIES = ("threshold-cheapest", "queueing", "ql-pds-plus")
QEMU = "qemu-aarch64-static"


def main(folder: Path, policies: list[str]) -> int:
    """Compare each policy; return 1 where a result differs."""
    system, packages = folder / "system", folder / "packages"
    if not system.exists():
        unpack_python(system, folder)
    if not packages.exists():
        install_packages(packages)
    emulated = [QEMU, "-L", str(system), str(next(system.glob("usr/bin/python3.[0-9]*")))]
    machine = simulate_here(emulated, packages, "-c", "import platform; print(platform.machine())")
    print(f"emulated: {machine.strip()}")
    different = 0
    for policy in policies:
        asked = ("-m", "weir_cli.main", "simulate", str(EXPERIMENT), "--policy", policy, "--json")
        began = time.monotonic()
        theirs = json.loads(simulate_here(emulated, packages, *asked))
        seconds = time.monotonic() - began
        ours = json.loads(simulate_here([sys.executable], None, *asked))
        same = theirs == ours
        different += not same
        print(f"{policy}: {'equal' if same else 'DIFFERENT'}, {seconds:.0f} s emulated", flush=True)
        if not same:
            print(f"  arm64: {json.dumps(theirs)[:500]}\n  here:  {json.dumps(ours)[:500]}")
    return 1 if different else 0


def unpack_python(system: Path, folder: Path) -> None:
    """Unpack Debian's Python for arm64 and what it needs; nothing is set up in it."""
    for each in ("state/lists/partial", "cache/archives/partial"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    apt = ["apt-get", "--quiet", "--yes", "-o", "APT::Architecture=arm64"]
    apt += ["-o", "APT::Architectures=arm64", "-o", "APT::Sandbox::User=root"]
    apt += ["-o", f"Dir::State={folder / 'state'}", "-o", f"Dir::State::status={folder / 'status'}"]
    apt += ["-o", f"Dir::Cache={folder / 'cache'}", "-o", "Debug::NoLocking=1"]
    subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    wanted = ["install", "--download-only", "--no-install-recommends", "python3", "libstdc++6"]
    subprocess.run([*apt, *wanted], check=True, stdout=subprocess.DEVNULL)
    for package in sorted((folder / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, system], check=True)


def install_packages(packages: Path) -> None:
    """Install what Weir requires, from wheels for arm64 and this version of Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages)]
    command += ["--constraint", str(ROOT / "constraints.txt"), "--only-binary", ":all:"]
    command += ["--python-version", f"{sys.version_info.major}.{sys.version_info.minor}"]
    command += [f"--platform={each}" for each in PLATFORMS]
    subprocess.run([*command, *project["dependencies"]], check=True)


def simulate_here(python: list[str], packages: Path | None, *arguments: str) -> str:
    """Run Weir by a Python; `packages` are what it requires, or `None` for this environment's."""
    path = [str(packages)] if packages else []
    environment = {
        "HOME": os.environ["HOME"],
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([*path, *(str(ROOT / each) for each in SOURCES)]),
        "NUMBA_CACHE_DIR": str(ROOT / "build" / ("arm64" if packages else "kernels")),
    }
    done = subprocess.run(
        [*python, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit((__doc__ or "").strip())
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(POLICIES)))
