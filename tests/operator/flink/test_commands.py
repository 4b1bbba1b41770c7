"""What a JVM makes of the options that Weir starts it with, asked of the JVM itself."""

import re
import subprocess

import pytest

from weir_operator.flink.commands import (
    Installation,
    java_options,
    job_manager_command,
    task_manager_command,
)
from weir_operator.flink.jars import find_java, flink_home

pytestmark = pytest.mark.flink

MEMORY = ("-Xmx256m", "-Xms256m", "-XX:MaxMetaspaceSize=256m")
COLLECTORS = ["UseG1GC", "UseParallelGC", "UseSerialGC", "UseZGC"]


@pytest.fixture(scope="module")
def command_of(tmp_path_factory):
    """Return a function that makes the command of a process with these keys of the user's."""
    installation = Installation(java=find_java(), flink_home=flink_home())
    folder = tmp_path_factory.mktemp("conf")

    def make(role, config, *, processors):
        user = java_options(config, role)
        if role == "jobmanager":
            return job_manager_command(
                installation, configuration_dir=folder, memory=MEMORY, user_options=user
            )
        return task_manager_command(
            installation,
            configuration_dir=folder,
            memory=MEMORY,
            processors=processors,
            user_options=user,
        )

    return make


@pytest.fixture(autouse=True)
def no_options_of_the_tests(monkeypatch):
    monkeypatch.delenv("JDK_JAVA_OPTIONS")


def read_flags(command):
    """Return the flags that a JVM of this command would run with."""
    options = command[: command.index("-cp")]
    answer = subprocess.run(
        [*options, "-XX:+PrintFlagsFinal", "-version"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return dict(re.findall(r"^ *\w+ (\w+) +=(.*?) *\{", answer.stdout, flags=re.MULTILINE))


@pytest.mark.parametrize("role", ["jobmanager", "taskmanager"])
@pytest.mark.parametrize("processors", [1, 2, 8])
def test_collector_and_compilers_are_the_jvms_own_choice(command_of, role, processors):
    cores = f"-XX:ActiveProcessorCount={processors}"
    told = {"env.java.opts.all": cores} if role == "jobmanager" else {}
    plain = read_flags((str(find_java()), *MEMORY, cores, "-cp"))

    flags = read_flags(command_of(role, told, processors=processors))

    other = {name for name, value in flags.items() if value != plain[name]}
    assert other - {"SharedBaseAddress"} == {"ExitOnOutOfMemoryError"}  # that one is drawn
    assert flags["TieredStopAtLevel"].strip() == "4"  # the second compiler


@pytest.mark.parametrize("key", ["env.java.opts.all", "env.java.opts.{role}"])
@pytest.mark.parametrize("role", ["jobmanager", "taskmanager"])
@pytest.mark.parametrize("collector", COLLECTORS)
def test_the_users_collector_is_the_only_one(command_of, role, collector, key):
    config = {key.format(role=role): f"-XX:+{collector}"}

    flags = read_flags(command_of(role, config, processors=1))

    assert [name for name in COLLECTORS if flags[name].strip() == "true"] == [collector]
