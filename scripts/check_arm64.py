#!/usr/bin/env python3
"""Checks, on any processor, that the images can be made for arm64.

Resolves for arm64 each group of Debian packages that the Dockerfile installs, and the packages of
PyPI that it installs, in the versions of constraints.txt. Builds nothing and downloads hardly more
than lists. The Dockerfile's stage `check-arm64` runs it where Debian's release, and pip, are those
of the images.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

# A source archive without compiled parts.
NO_WHEEL = {"pyspark"}
EXTRAS = ("history", "spark", "tune")
# Debian 13's C library is 2.41; pip takes a wheel for any older one.
PLATFORMS = [f"manylinux_2_{minor}_aarch64" for minor in range(17, 42)] + ["manylinux2014_aarch64"]


def main() -> None:
    """Check both; end with 1 where something is missing."""
    groups = read_debian_packages(Path("Dockerfile").read_text(encoding="utf-8"))
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = {*project["dependencies"], *(each for extra in EXTRAS for each in extras[extra])}
    with tempfile.TemporaryDirectory() as folder:
        ok = check_debian(groups, Path(folder))
        ok = check_wheels(sorted(wanted - NO_WHEEL), Path(folder)) and ok
    sys.exit(0 if ok else 1)


def read_debian_packages(dockerfile: str) -> list[list[str]]:
    """Return the packages of each command that installs or downloads some."""
    command = r"apt-get (?:install --yes --no-install-recommends|download) +([a-z0-9][^&\n]*)"
    lines = dockerfile.replace("\\\n", " ")
    return [found.split() for found in re.findall(command, lines)]


def check_debian(groups: list[list[str]], folder: Path) -> bool:
    """Resolve each group with an empty system of that architecture."""
    for each in ("state/lists/partial", "cache/archives/partial"):
        (folder / each).mkdir(parents=True)
    (folder / "status").touch()
    apt = ["apt-get", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64"]
    apt += ["-o", f"Dir::State={folder / 'state'}", "-o", f"Dir::State::status={folder / 'status'}"]
    apt += ["-o", f"Dir::Cache={folder / 'cache'}", "-o", "Debug::NoLocking=1"]
    subprocess.run([*apt, "--quiet", "update"], check=True, stdout=subprocess.DEVNULL)
    ok = True
    for group in groups:
        done = subprocess.run(
            [*apt, "--quiet", "--simulate", "--no-install-recommends", "install", *group],
            capture_output=True,
            text=True,
            check=False,
        )
        count = len(re.findall("^Inst ", done.stdout, re.MULTILINE))
        print(f"Debian, arm64: {' '.join(group)}: ", end="")
        print(f"{count} packages" if done.returncode == 0 else f"\n{done.stdout}{done.stderr}")
        ok = ok and done.returncode == 0
    return ok


def check_wheels(requirements: list[str], folder: Path) -> bool:
    """Resolve requirements, and what they require, to wheels alone."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    report = folder / "report.json"
    command = ["pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    command += ["--constraint", "constraints.txt", "--only-binary", ":all:"]
    command += ["--target", str(folder / "target"), "--report", str(report)]
    command += ["--python-version", version, *(f"--platform={each}" for each in PLATFORMS)]
    if subprocess.run([*command, *requirements], check=False).returncode:
        return False
    wheels = json.loads(report.read_text(encoding="utf-8"))["install"]
    print(f"PyPI, arm64, Python {version}: {len(wheels)} wheels")
    return True


if __name__ == "__main__":
    main()
