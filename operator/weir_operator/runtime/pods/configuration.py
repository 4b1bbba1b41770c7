"""The ConfigMap of a Flink container: configuration, logging and start script. Pure.

A ConfigMap is named for its content and never changes, so a pod that restarts finds the
configuration that it started with, and an upgrade can go back to the old version.

The script replaces itself by the JVM, which is then the container's first process and receives
signals directly. If the image has its own entrypoint, as Flink's images do, the JVM starts through
it: it preloads the allocator and enables the plugins of `ENABLE_BUILT_IN_PLUGINS`.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType

from weir_operator.api.client import Body
from weir_operator.flink import programs
from weir_operator.flink.commands import (
    JOB_MANAGER_CLASS,
    TASK_MANAGER_CLASS,
    java_options,
    job_manager_options,
    render_console_log4j,
    task_manager_options,
)
from weir_operator.flink.configuration import (
    METRICS_PORT,
    ClusterAddress,
    TaskManagerIdentity,
    high_availability,
    job_manager_configuration,
    render_yaml,
    task_manager_configuration,
)
from weir_operator.flink.jars import find_own_jar
from weir_operator.flink.memory import split_job_manager, split_memory
from weir_operator.flink.scripts import CLIENT, FIND_PYFLINK
from weir_operator.flink_keys import add_own_names
from weir_operator.runtime.pods.pod_spec import AGENT_JAR, AGENT_MOUNT, HELD_FOR
from weir_operator.runtime.pods.pods import (
    CONFIG_MOUNT,
    FLINK,
    PROGRAMS_JAR,
    PYTHON_JAR,
    FlinkPods,
    fitting,
)

ENTRYPOINT = "/docker-entrypoint.sh"
"""Where Flink's images, and those made from them, have theirs; the Flink Kubernetes Operator starts
it by this name, too."""
ARCHIVE = f"{FLINK}/weir/tm.jsa"
"""An archive of classes in the image, which Flink starts from where there is one. The job that it
is made with runs in one JVM, so it has the JobManager's classes, too."""
JAR_ID = "weir_job.jar"
"""Under which the JobManager knows the job's jar; Flink passes over names without `_`."""
SCRATCH = "/tmp/weir"
"""What the script makes, and where the JobManager keeps jars."""
UPLOADED_JAR = f"{SCRATCH}/flink-web-upload/{JAR_ID}"

# The entrypoint writes plugins and a configuration into Flink's folder, which may be read-only, and
# a configuration of which nothing is read. It would start a JVM for the latter.
_THROUGH_THE_ENTRYPOINT = f"""\
through=
if [ -x {ENTRYPOINT} ]; then
  home={SCRATCH}/home
  mkdir -p $home/bin $home/conf $home/plugins
  for each in {FLINK}/*; do
    case $each in */bin | */conf | */plugins) ;; *) ln -sfn "$each" $home/ ;; esac
  done
  for folder in bin plugins; do
    for each in {FLINK}/$folder/*; do
      [ ! -e "$each" ] || ln -sfn "$each" $home/$folder/
    done
  done
  rm -f $home/bin/config-parser-utils.sh
  printf '#!/bin/sh\\n' > $home/bin/config-parser-utils.sh
  chmod +x $home/bin/config-parser-utils.sh
  export FLINK_HOME=$home FLINK_PLUGINS_DIR=$home/plugins
  through={ENTRYPOINT}
fi
"""


def start_script(
    *, options: tuple[str, ...], main: str, before: str, has_agent: bool = False
) -> str:
    """Return the script for `sh`; the JVM uses an archive of classes where the image has one.

    Args:
        options: Of the JVM.
        main: Main class and its arguments, as the shell reads them.
        before: Lines that come first; what they leave in `$@` are more arguments.
        has_agent: Whether the JVM loads Weir's agent, if the pod got it.
    """
    jar = f"{AGENT_MOUNT}/{AGENT_JAR}"
    agent = f"agent=\n[ ! -r {jar} ] || agent=-javaagent:{jar}\n" if has_agent else ""
    return (
        "set -eu\n"
        # The archive of classes holds only for the same jars in the same order.
        "export LC_ALL=C\n"
        "set --\n"
        f"{before}"
        f"archive=\n[ ! -s {ARCHIVE} ] || archive=-XX:SharedArchiveFile={ARCHIVE}\n"
        f"{agent}"
        f"{_THROUGH_THE_ENTRYPOINT}"
        f"classes=$(echo {FLINK}/lib/*.jar | tr ' ' ':')\n"
        f"exec $through java {shlex.join(options)} $archive{' $agent' if has_agent else ''} \\\n"
        f"  -Dlog4j.configurationFile={CONFIG_MOUNT}/log4j.properties \\\n"
        f'  -cp "$classes" \\\n'
        f'  {main} "$@"\n'
    )


def check_python(python: str | None) -> str:
    """Return the lines that end a JobManager whose image cannot run a PyFlink program.

    Args:
        python: The interpreter, as `python.client.executable` names it; `None` takes what Flink
            would: its own variable, else `python`.
    """
    interpreter = shlex.quote(python) if python else '"${PYFLINK_CLIENT_EXECUTABLE:-python}"'
    remedy = "; build an image with both, or name its interpreter in python.client.executable"
    return (
        f"python={interpreter}\n"
        f'"$python" -c {shlex.quote(FIND_PYFLINK)} 2>/dev/null || {{\n'
        "  echo 'spec.flink.image: expected an image with Python and apache-flink for"
        f' spec.flink.job.python, got one without, by its interpreter\' "$python{remedy}"'
        " | tee /dev/termination-log >&2\n"
        "  exit 1\n"
        "}\n"
    )


def provide_jar(jar: str | None, *, class_path: str = "") -> str:
    """Return the lines that put the job's jar where `GET /jars` finds it, and its libraries.

    Every other jar below `usrlib` is on the class path of the job, in JobManager and TaskManagers.

    Args:
        jar: In the container; `None` takes the one jar in `usrlib` itself.
        class_path: What the user has there besides, as `pipeline.classpaths` is written.
    """
    found = f"{FLINK}/usrlib/*.jar"
    if jar:
        found = jar if jar == PYTHON_JAR else shlex.quote(jar)  # a pattern, or a path
    wanted = f"{jar} in the image" if jar else f"one jar in {FLINK}/usrlib of the image"
    field, remedy = "jar", "correct its path, or put it there" if jar else "name the one to run"
    if jar == PYTHON_JAR:
        field, remedy = "python", "put it there"
    # There the JobManager itself looks for the jar, when it makes a job of the program.
    environment = f"export FLINK_OPT_DIR={FLINK}/opt\n" if jar == PYTHON_JAR else ""
    given = f"{shlex.quote(class_path)}${{libraries:+';'}}" if class_path else ""
    return (
        f"{environment}"
        f"set -- {found}\n"
        '[ $# -eq 1 ] && [ -r "$1" ] || {\n'
        # A pattern that matches nothing stands for itself.
        '  [ $# -gt 1 ] || set -- "nothing that can be read"\n'
        f"  echo {shlex.quote(f'spec.flink.job.{field}: expected {wanted}, got')} "
        f'"$*; "{shlex.quote(remedy)} | tee /dev/termination-log >&2\n'
        "  exit 1\n"
        "}\n"
        f"mkdir -p {SCRATCH}/flink-web-upload\n"
        f'ln -sf "$1" {UPLOADED_JAR}\n'
        f"libraries=$(find -L {FLINK}/usrlib -name '*.jar' ! -path \"$1\" 2>/dev/null | sort"
        " | sed 's/ /%20/g; s/^/file:/' | paste -s -d ';' -)\n"
        f"libraries={given}$libraries\n"
        "set --\n"
        '[ -z "$libraries" ] || set -- -D "pipeline.classpaths=$libraries"\n'
    )


RPC_PORT = 6123
BLOB_PORT = 6124
REST_PORT = 8081
TASK_RPC_PORT = 6122
TASK_DATA_PORT = 6121
RESULTS_PATHS = ("job-result-store.storage-path", "application-result-store.storage-path")
"""Where Flink notes which jobs have ended, until it has cleared up after them."""


def job_manager_files(pods: FlinkPods, *, by_own_address: bool = False) -> dict[str, str]:
    """Return the files of the JobManager's ConfigMap.

    Args:
        pods: What the StreamApp's pods are made of.
        by_own_address: Whether it is not the one that the Service's name leads to.

    Raises:
        PermanentError: No JobManager can run in so little memory.
    """
    configuration = job_manager_configuration(
        app=pods.app,
        address=_address(pods),
        storage=pods.storage,
        metrics_ports=(METRICS_PORT,),
        max_parallelism=pods.max_parallelism,
        user=pods.make.config,
        place={
            "jobmanager.bind-host": "0.0.0.0",
            "rest.bind-address": "0.0.0.0",
            "rest.bind-port": str(REST_PORT),
            "blob.server.port": str(BLOB_PORT),
            **_scratch(pods),
            "web.upload.dir": SCRATCH,
            **_recovery(pods),
            **_results(pods),
        },
    )
    uses_python = pods.make.jar == PYTHON_JAR
    memory = split_job_manager(pods.make.config, process=pods.make.job_manager.memory)
    # The leader is found by its pod's address: a name would be asked for before it is known.
    own_address = (
        '-D "jobmanager.rpc.address=$POD_IP" -D "rest.address=$POD_IP"'
        if pods.survives or by_own_address
        else ""
    )
    return {
        "config.yaml": render_yaml(configuration),
        "log4j.properties": render_console_log4j(),
        "start.sh": start_script(
            before=(check_python(pods.make.config.get(CLIENT)) if uses_python else "")
            + provide_jar(
                pods.make.jar, class_path=pods.make.config.get("pipeline.classpaths", "")
            ),
            has_agent=pods.agent is not None,
            options=(
                *job_manager_options(memory.jvm),
                *java_options(pods.make.config, "jobmanager"),
            ),
            main=f"{JOB_MANAGER_CLASS} --configDir {CONFIG_MOUNT} --executionMode cluster"
            f" {own_address}",
        ),
    }


def task_manager_files(pods: FlinkPods, operator: str, pool: str) -> dict[str, str]:
    """Return the files of the ConfigMap of an operator's TaskManagers in a pool.

    Raises:
        PermanentError: Their memory cannot be split as the user's keys ask.
    """
    configuration = task_manager_configuration(
        identity=TaskManagerIdentity(app=pods.app, id=None, operator=operator, pool=pool),
        address=_address(pods),
        storage=pods.storage,
        memory=pods.memory_of(operator, pool),
        metrics_ports=(METRICS_PORT,),
        user=pods.make.config,
        place={
            "taskmanager.bind-host": "0.0.0.0",
            "taskmanager.rpc.port": str(TASK_RPC_PORT),
            "taskmanager.data.port": str(TASK_DATA_PORT),
            **_scratch(pods),
            **_recovery(pods),
        },
    )
    memory = split_memory(configuration)
    return {
        "config.yaml": render_yaml({**configuration, **memory.settings}),
        "log4j.properties": render_console_log4j(),
        "start.sh": start_script(
            before="",
            has_agent=pods.agent is not None,
            options=(
                *task_manager_options(memory.jvm, processors=pods.cores_of(pool)),
                *java_options(pods.make.config, "taskmanager"),
            ),
            main=f"{TASK_MANAGER_CLASS} --configDir {CONFIG_MOUNT}"
            ' -D "taskmanager.resource-id=$POD_NAME" -D "taskmanager.host=$POD_IP"',
        ),
        "hold.sh": hold_script(pods.job_manager),
    }


def hold_script(host: str, port: int = REST_PORT) -> str:
    """Return what a TaskManager's pod runs before its JVM is told to end.

    It ends when the slot is free, as it is where Weir removes the pod, so no removal by Weir takes
    longer. Where somebody evicts the pod, the job works on until Weir has moved the operator to the
    replacement. Without an answer of the JobManager, there is no job to wait for.

    `/dev/tcp` is bash's: images need no HTTP client. An image without bash holds nothing.
    """
    return f"""\
# Keeps this pod at work until its slot is free, or {HELD_FOR} s have passed.
slot_is_used() {{
    exec 3<>/dev/tcp/{host}/{port} || return 1
    printf 'GET /taskmanagers/%s HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n' "$POD_NAME" >&3
    timeout 5 cat <&3 | grep -q '"freeSlots":0'
}}
while [ $SECONDS -lt {HELD_FOR} ] && slot_is_used 2>/dev/null; do
    sleep 0.2
done
"""


def job_manager_jars(pods: FlinkPods) -> dict[str, bytes]:
    """Return the jars of the JobManager's ConfigMap: Weir's own, which runs a SQL script.

    Raises:
        PermanentError: It is not installed here.
    """
    if pods.make.jar != PROGRAMS_JAR:
        return {}
    jar = find_own_jar(programs.JAR)
    return {jar.name: jar.read_bytes()}


def config_map(
    pods: FlinkPods,
    name: str,
    labels: Mapping[str, str],
    data: Body,
    jars: Mapping[str, bytes] = MappingProxyType({}),
) -> Body:
    """Return a ConfigMap named for its content, which is never changed."""
    binary = {each: b64encode(content).decode() for each, content in jars.items()}
    content = json.dumps({**data, **binary}, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()[:10]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{fitting(name, longest=200)}-{digest}",
            "namespace": pods.namespace,
            "labels": dict(labels),
            "ownerReferences": [pods.owner.reference()],
        },
        "immutable": True,
        "data": dict(data),
        **({"binaryData": binary} if binary else {}),
    }


def _address(pods: FlinkPods) -> ClusterAddress:
    return ClusterAddress(
        host=f"{pods.job_manager}.{pods.namespace}", rpc_port=RPC_PORT, rest_port=REST_PORT
    )


def _scratch(pods: FlinkPods) -> dict[str, str]:
    """Return where Flink keeps files of its work, such as RocksDB's: the user's folders, if any."""
    key = "io.tmp.dirs"
    return {key: add_own_names(pods.make.config).get(key, "/tmp")}


def _results(pods: FlinkPods) -> dict[str, str]:
    if not pods.results:
        return {}
    folder = f"{pods.recovery_folder}/{pods.results}"
    return dict(zip(RESULTS_PATHS, (f"{folder}/jobs", f"{folder}/applications"), strict=True))


def _recovery(pods: FlinkPods) -> dict[str, str]:
    if not pods.survives:
        return {}
    return high_availability(
        cluster=pods.cluster_id, namespace=pods.namespace, storage=pods.recovery_folder
    )
