"""A file that tells a Prometheus server where the reporters of a local run listen.

Ports of TaskManagers change with every rescale, so no static configuration can name them.
Prometheus reads this file whenever it changes (`file_sd_configs`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import TemporaryError
from weir_operator.metrics.direct import Targets
from weir_operator.metrics.names import APP_LABEL
from weir_operator.runtime.files import write_atomically

log = structlog.get_logger()


def render_targets(urls: Sequence[str], app: str) -> str:
    """Return the file's text: all reporters, labelled as the StreamApp's."""
    group = {
        "targets": sorted(urlsplit(url).netloc for url in urls),
        "labels": {APP_LABEL: app},
    }
    return json.dumps([group], indent=1) + "\n"


async def keep_targets(
    path: Path, targets: Targets, app: str, *, clock: Clock, period: float = 1.0
) -> None:
    """Write the file whenever the reporters change, until cancelled.

    Args:
        path: The file.
        targets: Says where the reporters listen now.
        app: `namespace/name` of the StreamApp.
        clock: Waits between two looks.
        period: Seconds between two looks.
    """
    written = ""
    while True:
        try:
            text = render_targets(await targets(), app)
            if text != written:
                write_atomically(path, text)
                written = text
        except TemporaryError as error:
            log.warning("targets for Prometheus not written", path=str(path), failure=str(error))
        await clock.sleep(period)
