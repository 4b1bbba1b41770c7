"""Guards the commands: each says what it does, the README's exist, a poor machine is told why."""

import re
import shutil

import pytest


@pytest.fixture(scope="module")
def targets(root):
    return re.findall(r"^\.PHONY: (.+)$", (root / "Makefile").read_text(), flags=re.MULTILINE)


def test_make_alone_prints_every_command_with_its_help(run, targets):
    shown = run(["make"])

    helped = re.findall(r"^  make ([a-z0-9-]+) +\S", shown.stdout, flags=re.MULTILINE)
    assert helped == targets
    assert {"demo", "test", "check", "bench"} <= set(targets)


def test_the_helper_agrees_that_this_machine_will_do(run, bin_folder):
    python = run(["scripts/require", f"python={bin_folder / 'python'}"])
    java = run(["scripts/require", "java"])

    assert (python.returncode, python.stderr) == (0, "")
    assert (java.returncode, java.stderr) == (0, "")


def test_a_missing_java_is_named_with_its_remedy(run, tmp_path):
    refused = run(["scripts/require", "java"], JAVA_HOME=str(tmp_path))

    assert refused.returncode == 1
    assert "/bin/java' was not found: install a JDK" in refused.stderr
    assert refused.stderr.splitlines()[1:] == [
        "weir: on Debian and Ubuntu: sudo apt-get install --yes default-jdk-headless"
    ]


def test_all_that_is_missing_is_told_at_once_with_the_line_that_installs_it(run, tmp_path):
    refused = run(
        ["scripts/require", "python=python-of-nowhere", "java", "maven"],
        JAVA_HOME=str(tmp_path), PATH=str(only_bash(tmp_path)),
    )  # fmt: skip

    assert refused.returncode == 1
    assert refused.stderr.count(" was not found") == 3
    last = refused.stderr.splitlines()[-1]
    assert last.endswith("install --yes python3 python3-venv default-jdk-headless maven")


@pytest.mark.parametrize(
    "said",
    [
        'openjdk version "1.8.0_292"',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx900m\nopenjdk version "11.0.2" 2019-01-15',
    ],
)
def test_an_old_java_is_named_with_its_version(run, tmp_path, said):
    write_program(tmp_path / "bin" / "java", f"cat >&2 <<'END'\n{said}\nEND")

    refused = run(["scripts/require", "java"], JAVA_HOME=str(tmp_path))

    found = said.split('"')[1]
    assert refused.returncode == 1
    assert f"Java must be 17 or newer, '{tmp_path}/bin/java' is {found}: " in refused.stderr


def test_a_java_without_its_compiler_is_not_enough(run, tmp_path):
    write_program(tmp_path / "bin" / "java", "echo 'openjdk version \"17.0.1\"'")

    refused = run(["scripts/require", "java"], JAVA_HOME=str(tmp_path))

    assert refused.returncode == 1
    assert "/bin/javac' was not found" in refused.stderr


def test_a_missing_python_is_named_with_its_remedy(run):
    refused = run(["scripts/require", "python=python-of-nowhere"])

    assert refused.returncode == 1
    assert "'python-of-nowhere': install 3.11, 3.12 or 3.13, or name one" in refused.stderr


def only_bash(folder):
    """Return a folder for PATH with no program but the shell's."""
    (folder / "programs").mkdir()
    for name in ("bash", "env"):
        (folder / "programs" / name).symlink_to(shutil.which(name))
    return folder / "programs"


def write_program(path, script):
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
