"""The script that a Flink container runs. Pure.

It replaces itself by the JVM, which is then the container's first process: signals reach it and
nothing stands in between. Where the image has an entrypoint of its own, as Flink's images do, the
JVM starts through it: it preloads the allocator and enables the plugins of
`ENABLE_BUILT_IN_PLUGINS`.
"""

from __future__ import annotations

import shlex

FLINK = "/opt/flink"
"""Where Flink is in an image."""
ENTRYPOINT = "/docker-entrypoint.sh"
"""Where Flink's images, and those made from them, have theirs; the Flink Kubernetes Operator starts
it by this name, too."""
ARCHIVE = f"{FLINK}/weir/tm.jsa"
"""An archive of classes in the image, which TaskManagers start from where there is one."""
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
    *,
    options: tuple[str, ...],
    main: str,
    config_dir: str,
    before: str,
    more_options: str = "",
) -> str:
    """Return the script for `sh`.

    Args:
        options: Of the JVM.
        main: Main class and its arguments, as the shell reads them.
        config_dir: Folder with `log4j.properties`.
        before: Lines that come first; what they leave in `$@` are more arguments.
        more_options: Of the JVM, as the shell reads them.
    """
    return (
        "set -eu\n"
        # The archive of classes holds only for the same jars in the same order.
        "export LC_ALL=C\n"
        "set --\n"
        f"{before}"
        f"{_THROUGH_THE_ENTRYPOINT}"
        f"classes=$(echo {FLINK}/lib/*.jar | tr ' ' ':')\n"
        f"exec $through java {shlex.join(options)} {more_options} \\\n"
        f"  -Dlog4j.configurationFile={config_dir}/log4j.properties \\\n"
        f'  -cp "$classes" \\\n'
        f'  {main} "$@"\n'
    )


def use_archive() -> str:
    """Return the lines that set `$archive` to the JVM's option, where the image has one."""
    return f"archive=\n[ ! -s {ARCHIVE} ] || archive=-XX:SharedArchiveFile={ARCHIVE}\n"


def provide_jar(jar: str | None, *, class_path: str = "") -> str:
    """Return the lines that put the job's jar where `GET /jars` finds it, and libraries beside it.

    Every other jar below `usrlib` is on the class path of the job, in JobManager and TaskManagers.

    Args:
        jar: In the image; `None` takes the one jar in `usrlib` itself.
        class_path: What the user has there besides, as `pipeline.classpaths` is written.
    """
    found = shlex.quote(jar) if jar else f"{FLINK}/usrlib/*.jar"
    wanted = f"{jar} in the image" if jar else f"one jar in {FLINK}/usrlib of the image"
    remedy = "correct its path, or put it there" if jar else "name the one that is meant"
    given = f"{shlex.quote(class_path)}${{libraries:+';'}}" if class_path else ""
    return (
        f"set -- {found}\n"
        '[ $# -eq 1 ] && [ -r "$1" ] || {\n'
        # A pattern that matches nothing stands for itself.
        '  [ $# -gt 1 ] || set -- "nothing that can be read"\n'
        f"  echo {shlex.quote(f'spec.flink.job.jar: expected {wanted}, got')} "
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
