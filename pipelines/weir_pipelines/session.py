"""The Spark session: embedded in this process, or with executors on Kubernetes.

Given options of Spark override what is set here. Executors process samples in Python and must have
this very package: they run the same image.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from weir_pipelines.settings import EMBEDDED

_ALWAYS: Mapping[str, str] = {
    # Days are UTC, wherever the machine stands.
    "spark.sql.session.timeZone": "UTC",
    # A minute that cannot be computed is a defect, not a null.
    "spark.sql.ansi.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Nobody looks at the pages of a batch job, and whoever reaches them may.
    "spark.ui.enabled": "false",
}
_EMBEDDED: Mapping[str, str] = {
    # Nobody else is to reach it.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def open_session(
    *, master: str = EMBEDDED, options: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a Spark session; the caller stops it.

    Args:
        master: As Spark has it: `local[*]`, or `k8s://https://kubernetes.default.svc`.
        options: Spark's configuration, which wins over what is set here.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark says the same things about its platform at every start.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    builder = SparkSession.builder.master(master).appName("weir")
    settings = {**_ALWAYS, **(_EMBEDDED if master.startswith("local") else {}), **(options or {})}
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
