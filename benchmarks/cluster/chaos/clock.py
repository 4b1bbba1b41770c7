"""The wall clock of one process alone, stepped while it runs.

The clock of the machine is everybody's, and Linux has no namespace for wall time. So the controller
is started with a small library in front of the C library's: `clock_gettime` adds what a file says
to the real-time clock and leaves the other clocks alone. Python reads its wall time there. The C
library's `time`, by which OpenSSL checks certificates, stays as it is, because only this process
leaves the time of the cluster.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

LIBRARY = "clock.so"


OFFSET = "offset"


VARIABLE = "CHAOS_CLOCK_OFFSET"
"""Environment variable that names the file with the offset."""


_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *offset;

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("%s");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) offset = page;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long failed = syscall(SYS_clock_gettime, clock, time);
    int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    if (!failed && wall && offset) time->tv_sec += *offset;
    return (int)failed;
}
"""


def find_obstacle() -> str:
    """Return why no clock can be stepped on this machine; empty where one can."""
    return "" if shutil.which("cc") else "there is no C compiler (cc)"


def make_clock(folder: Path) -> None:
    """Put the library and an offset of zero into a folder that everybody may read.

    Raises:
        CalledProcessError: It does not compile.
    """
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    step_clock(folder, 0)
    (folder / OFFSET).chmod(0o644)
    command = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-o", str(folder / LIBRARY), "-"]
    subprocess.run(command, input=_SOURCE % VARIABLE, text=True, check=True)


def step_clock(folder: Path, seconds: int) -> None:
    """Set by how much the processes that have the clock of `folder` are ahead of the machine's."""
    file = os.open(folder / OFFSET, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(file, struct.pack("=q", seconds), 0)  # one aligned write: nobody reads half of it
    finally:
        os.close(file)


def environment(folder: str) -> dict[str, str]:
    """Return the variables of a process that has the clock of `folder`, as it calls the folder."""
    return {"LD_PRELOAD": f"{folder}/{LIBRARY}", VARIABLE: f"{folder}/{OFFSET}"}
