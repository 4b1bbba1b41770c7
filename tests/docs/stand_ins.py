"""What the commands of the pages meet when a test runs them: the real programs, on small inputs.

    python stand_ins.py PROGRAM ARGUMENTS...

A page's block is run by bash as it is written, and finds these on its path. Each does the least
that is needed so that nothing is harmed and nothing takes long:

- kubectl, helm: the real ones against a real API server; what would change something is a dry run
  on the server. `kubectl exec` has no kubelet to ask: it sees that its target exists, and runs the
  command here. `helm test` has no pod to run: it sees that the release has a test.
- weir: the real one; simulations are of few slots, a job of one's own runs for seconds, and a run
  that was made is not made again. Of the examples' jobs, which other tests run on real Flink, the
  manifest is judged and the command line read. `weir pipelines` runs, in a real Spark, on one day
  of a history that is made up, which a server gives as Prometheus would; `weir estimate` reads
  hours of it.
- make: the real one, which only prints what it would do.
- docker: there is none. It sees that file, stage and context exist; `scripts/e2e` builds the same
  images and has a cluster run them.
- sudo: the rest of the line, within the folder of the test; apt-get installs nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

FOLDER = Path(os.environ["DOCS_FOLDER"])
"""Where the block runs; stands for the root of the file system, too."""
ROOT = Path(os.environ["DOCS_REPOSITORY"])

FEWEST_SLOTS = 60
SECONDS = "6s"
"""How long a job runs."""
PROMETHEUS = "http://prometheus:9090"
FORWARDED = "http://localhost:9090"
SMALL_SPARK = (
    "spark.sql.shuffle.partitions=2",
    "spark.sql.adaptive.enabled=false",
    "spark.sql.codegen.wholeStage=false",
)
"""Of tiny tables: compiling a query costs more than it saves."""

READING = {"get", "describe", "explain", "api-resources", "wait", "version"}
CHANGING = {"apply", "create", "delete", "patch", "label", "annotate"}


def kubectl(arguments: list[str]) -> int:
    """Run the real one; what changes something is tried on the server."""
    program = os.environ["DOCS_KUBECTL"]
    if "exec" in arguments:
        end = arguments.index("--")
        target = [each for each in arguments[:end] if each != "exec"]
        seen = subprocess.run([program, "get", *target], check=False,
                              stdout=subprocess.DEVNULL).returncode  # fmt: skip
        inner = [each.replace("/var/", f"{FOLDER}/var/") for each in arguments[end + 1 :]]
        return seen or subprocess.run(inner, check=False).returncode
    if verbs := CHANGING.intersection(arguments):
        done = subprocess.run([program, *arguments, "--dry-run=server"],
                              text=True, stderr=subprocess.PIPE, check=False)  # fmt: skip
        sys.stderr.write(done.stderr)
        there_already = verbs == {"create"} and "AlreadyExists" in done.stderr
        return 0 if there_already else done.returncode
    if not READING.intersection(arguments):
        sys.exit(f"kubectl: expected a command that is known here, got {' '.join(arguments)}")
    once = [each for each in arguments if each not in ("-w", "--watch")]
    return subprocess.run([program, *once], check=False).returncode


def helm(arguments: list[str]) -> int:
    """Run the real one; what changes something is tried on the server."""
    program = os.environ["DOCS_HELM"]
    command, *rest = arguments
    if command == "test":
        shown = subprocess.run([program, "get", "hooks", *rest], stdout=subprocess.PIPE, text=True,
                               check=False)  # fmt: skip
        return shown.returncode if "helm.sh/hook: test" in shown.stdout else 1
    dry = "--dry-run" if command == "uninstall" else "--dry-run=server"
    rest = [each for each in rest if each != "--wait"]
    if released := [each for each in rest if each.startswith("oci://")]:
        # No release is anywhere: the chart of the repository stands for it.
        place = rest.index("--version")
        del rest[place : place + 2]
        rest = ["helm/weir" if each in released else each for each in rest]
    return subprocess.run([program, command, *rest, dry], stdout=subprocess.DEVNULL,
                          check=False).returncode  # fmt: skip


def weir(arguments: list[str]) -> int:
    """Run the real one on little; a run that was made is not made again."""
    command = arguments[0]
    if "--slots" in arguments and command in ("frontier", "tune"):
        arguments[arguments.index("--slots") + 1] = str(FEWEST_SLOTS)
    if command == "frontier":
        arguments += ["--seeds", "1", "--bounds", "100ms"]
    if command == "tune":
        arguments += ["--evaluations", "3", "--workers", "1"]
    if command == "pipelines":
        return _pipelines(arguments)
    if command == "estimate":
        return _estimate(arguments)
    if command == "adopt":  # a FlinkDeployment's job would have to run
        return _weir([*arguments, "--help"])
    if command == "local" and arguments[1].startswith("examples/"):
        seen = _weir([*arguments, "--help"])  # an option that does not exist is refused before it
        return seen or _weir(["validate", arguments[1]])
    if command == "local":
        arguments += ["--duration", SECONDS]
    made = FOLDER / "made.txt"
    line = " ".join(arguments)
    if made.exists() and line in made.read_text().splitlines():
        return 0
    code = _weir(arguments)
    if code == 0:
        with made.open("a") as lines:
            lines.write(f"{line}\n")
    return code


def _pipelines(arguments: list[str]) -> int:
    """Run the real one on one day; where a Prometheus is named, on that of the test's server."""
    if "--days" in arguments:
        arguments[arguments.index("--days") + 1] = "1"
    if arguments[1] == "run":
        arguments += ["--master", "local[2]"]
        for setting in SMALL_SPARK:
            arguments += ["--conf", setting]
    server = os.environ["DOCS_PROMETHEUS"]
    return _weir([each.replace(PROMETHEUS, server) for each in arguments])


def _estimate(arguments: list[str]) -> int:
    """Run the real one on hours from the test's server; there are no files and records to read."""
    if FORWARDED not in arguments:
        return _weir([*arguments, "--help"])
    server = os.environ["DOCS_PROMETHEUS"]
    return _weir([*(server if each == FORWARDED else each for each in arguments), "--days", "0.1"])


def _weir(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "weir_cli.main", *arguments]
    return subprocess.run(command, check=False).returncode


def make(arguments: list[str]) -> int:
    """Let the real one print what it would do."""
    return subprocess.run(
        ["make", "--dry-run", *arguments], cwd=ROOT, check=False, stdout=subprocess.DEVNULL,
        env=os.environ | {"PATH": os.environ["DOCS_PATH"]},
    ).returncode  # fmt: skip


def docker(arguments: list[str]) -> int:
    """See that what would be built is there, and that what is pushed was built."""
    built = FOLDER / "images.txt"
    command, *rest = arguments
    if command == "push":
        [image] = rest
        return 0 if image in built.read_text().splitlines() else 1
    options = dict(zip(rest[:-1:2], rest[1:-1:2], strict=True))
    text = (FOLDER / rest[-1] / options.get("-f", "Dockerfile")).read_text()
    stages = re.findall(r"^FROM .* AS (\S+)$", text, re.M)
    with built.open("a") as images:
        images.write(f"{options['-t']}\n")
    return 0 if options.get("--target", stages[-1] if stages else "") in [*stages, ""] else 1


def sudo(arguments: list[str]) -> int:
    """Run the rest of the line within the folder of the test; leave the machine's packages."""
    if arguments[:2] == ["apt-get", "install"]:
        return 0
    inside = [f"{FOLDER}{each}" if each.startswith("/") else each for each in arguments]
    return subprocess.run(inside, check=False).returncode


PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    each.__name__: each for each in (kubectl, helm, weir, make, docker, sudo)
}


if __name__ == "__main__":
    sys.exit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
