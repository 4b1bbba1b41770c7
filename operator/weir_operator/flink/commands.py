"""Command lines that start Flink's JVMs directly, without its shell scripts. Pure.

The child's process id is then the JVM's own, nothing stands in between, and a start takes 2 s
instead of 7. What the scripts would add is added here: class path, opened modules and log file. The
options about memory come from `memory`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weir_operator.flink_keys import add_own_names

JOB_MANAGER_CLASS = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER_CLASS = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
# A process that goes on without memory for one of its threads is neither alive nor replaced.
_END = "-XX:+ExitOnOutOfMemoryError"

# Reporters and the pins' missing driver warn on every start; their errors still show.
_QUIET = """\
logger.pekko.name = org.apache.pekko
logger.pekko.level = WARN
logger.netty.name = org.jboss.netty.channel.DefaultChannelPipeline
logger.netty.level = OFF
"""

# Kryo and Flink's closure cleaner reflect into these on Java 17; Flink's own configuration file
# opens and exports most of them, the others were needed by jobs.
_OPENED = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.text",
    "java.base/java.time",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/java.util.concurrent.locks",
    "java.base/sun.nio.ch",
    "java.base/sun.net.util",
)
_EXPORTED = (
    "java.rmi/sun.rmi.registry",
    "java.security.jgss/sun.security.krb5",
    "jdk.compiler/com.sun.tools.javac.api",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.compiler/com.sun.tools.javac.parser",
    "jdk.compiler/com.sun.tools.javac.tree",
    "jdk.compiler/com.sun.tools.javac.util",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """Which Java runs which Flink."""

    java: Path
    flink_home: Path
    """A folder with `lib/` and `plugins/`."""

    def class_path(self) -> str:
        """Return Flink's jars in a fixed order, which an archive of classes depends on."""
        return ":".join(str(jar) for jar in sorted((self.flink_home / "lib").glob("*.jar")))


def job_manager_command(
    installation: Installation,
    *,
    configuration_dir: Path,
    memory: tuple[str, ...],
    agent: Path | None = None,
    user_options: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Return the command line of a JobManager.

    Args:
        installation: Java and Flink.
        configuration_dir: Folder with `config.yaml` and `log4j.properties`; also the mark by which
            the process is found again.
        memory: Options of the JVM about its memory.
        agent: Weir's agent; `None` starts it without.
        user_options: From `java_options`. Weir chooses no garbage collector, so theirs is the only
            one; of two sizes that contradict each other the JVM takes the last.
    """
    options = (*job_manager_options(memory), *agent_options(agent), *user_options)
    command = _command(installation, options, JOB_MANAGER_CLASS, configuration_dir)
    return (*command, "--executionMode", "cluster")


def task_manager_command(
    installation: Installation,
    *,
    configuration_dir: Path,
    memory: tuple[str, ...],
    processors: int = 1,
    archive_options: tuple[str, ...] = (),
    agent: Path | None = None,
    user_options: tuple[str, ...] = (),
) -> tuple[str, ...]:
    """Return the command line of a TaskManager.

    Args:
        installation: Java and Flink.
        configuration_dir: Folder with `config.yaml` and `log4j.properties`.
        memory: Options of the JVM about its memory; the rest of the split is in `config.yaml`.
        processors: Cores of the largest size of its pool.
        archive_options: With which its JVM uses an archive of classes.
        agent: Weir's agent; `None` starts it without.
        user_options: From `java_options`.
    """
    options = (
        *task_manager_options(memory, processors=processors),
        *archive_options,
        *agent_options(agent),
        *user_options,
    )
    return _command(installation, options, TASK_MANAGER_CLASS, configuration_dir)


def _command(
    installation: Installation, options: tuple[str, ...], main: str, configuration_dir: Path
) -> tuple[str, ...]:
    log4j = f"-Dlog4j.configurationFile={configuration_dir / 'log4j.properties'}"
    java, jars = str(installation.java), installation.class_path()
    return (java, *options, log4j, "-cp", jars, main, "--configDir", str(configuration_dir))


def job_manager_options(memory: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options of a JobManager's JVM, wherever it runs."""
    return (*_modules(), *memory, _END)


def task_manager_options(memory: tuple[str, ...], *, processors: int) -> tuple[str, ...]:
    """Return the options of a TaskManager's JVM, wherever it runs.

    The JVM's own choice of compilers, collector and threads stands, as in any Flink. It is told
    the cores of the largest size that the replica can be given in place: by its first quota it
    would size itself once and for all.

    Args:
        memory: Its options about heap, direct memory and metaspace.
        processors: Cores of the largest size of its pool, rounded up.
    """
    return (*_modules(), *memory, f"-XX:ActiveProcessorCount={processors}", _END)


def agent_options(agent: Path | str | None) -> tuple[str, ...]:
    """Return the options with which a JVM loads Weir's agent."""
    return () if agent is None else (f"-javaagent:{agent}",)


def java_options(configuration: Mapping[str, str], role: str) -> tuple[str, ...]:
    """Return the user's options for the JVM of a `jobmanager` or `taskmanager`.

    Flink leaves these keys to its shell scripts.
    """
    keys = ("env.java.opts.all", f"env.java.opts.{role}")
    given = add_own_names(configuration)
    return tuple(word for key in keys for word in shlex.split(given.get(key, "")))


def flink_environment(installation: Installation) -> Mapping[str, str]:
    """Return the variables that Flink itself reads."""
    return {
        "FLINK_PLUGINS_DIR": str(installation.flink_home / "plugins"),
        "FLINK_LIB_DIR": str(installation.flink_home / "lib"),
        # Where the jar for PyFlink programs is, which a JobManager adds to a job.
        "FLINK_OPT_DIR": str(installation.flink_home / "opt"),
    }


def render_log4j(log_file: Path) -> str:
    """Return a log4j2 file that writes into `log_file` and two older ones, at most 15 MB."""
    return f"""\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = File
{_QUIET}\
appender.file.type = RollingFile
appender.file.name = File
appender.file.fileName = {log_file}
appender.file.filePattern = {log_file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %-5p %c{{1.}} - %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 5MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


TERMINATION_MESSAGE = "/dev/termination-log"
"""Where Kubernetes reads why a container ended, its last 4 KiB."""


def render_console_log4j() -> str:
    """Return a log4j2 file that writes to standard output, where a cluster collects it.

    Why a JobManager gives up goes to the container's termination message, too. The last lines of
    the log, which Kubernetes takes otherwise, tell of what ran on meanwhile.
    """
    return f"""\
rootLogger.level = INFO
rootLogger.appenderRef.console.ref = Console
{_QUIET}\
logger.fatal.name = org.apache.flink.runtime.entrypoint.ClusterEntrypoint
logger.fatal.appenderRef.fatal.ref = Fatal
logger.fatal.appenderRef.fatal.level = ERROR
appender.fatal.type = File
appender.fatal.name = Fatal
appender.fatal.fileName = {TERMINATION_MESSAGE}
appender.fatal.layout.type = PatternLayout
appender.fatal.layout.pattern = %d{{ISO8601}} %-5p %c{{1.}} - %m%n
appender.console.type = Console
appender.console.name = Console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{ISO8601}} %-5p %c{{1.}} - %m%n
"""


def _modules() -> tuple[str, ...]:
    return (
        *(f"--add-opens={module}=ALL-UNNAMED" for module in _OPENED),
        *(f"--add-exports={module}=ALL-UNNAMED" for module in _EXPORTED),
    )
