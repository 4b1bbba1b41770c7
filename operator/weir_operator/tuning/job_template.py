"""The Job that tunings are made from, as a file that whoever installs Weir has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from weir_operator.errors import PermanentError
from weir_operator.tuning.job import CONTAINER


def read_job(path: Path) -> dict[str, Any]:
    """Return a Job without a name.

    Raises:
        PermanentError: The file cannot be read, or holds no Job with a container `tuner`.
    """
    try:
        template = yaml.safe_load(path.read_text(encoding="utf-8"))
        containers = template["spec"]["template"]["spec"]["containers"]
        names = [container["name"] for container in containers]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        raise PermanentError(
            f"--tuner-job: expected a Job in {path}, got {type(error).__name__} ({error}); mount "
            "the one that the chart makes"
        ) from error
    if CONTAINER not in names:
        raise PermanentError(
            f"--tuner-job: expected a container {CONTAINER!r} in {path}, got {names}; name it so"
        )
    return dict(template)
