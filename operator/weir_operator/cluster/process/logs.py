"""The controller's log: on stderr, as JSON lines in a cluster, as text for people."""

from __future__ import annotations

import logging
import sys

import structlog

_QUIET = ("kopf", "kubernetes", "urllib3", "aiohttp.access", "asyncio")
"""Libraries that log at the level INFO what only their authors need."""


def send_logs(handler: logging.Handler | None = None, *, as_json: bool) -> None:
    """Write structured log lines to `handler`, else to stderr, those of libraries included.

    What is bound to the context (`app`, `operator`, `decision`) is on every line of its task.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # The renderer's own choice prints local variables, which hold users' secrets.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    if not as_json:
        shared.pop()  # the renderer for people shows stack traces itself
    handler = handler or logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
