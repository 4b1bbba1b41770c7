"""Where a command's log goes: a file of JSON lines, because the terminal belongs to the view."""

from __future__ import annotations

from pathlib import Path


def send_logs_to(path: Path) -> None:
    """Append structured log lines to `path`."""
    import structlog

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(path.open("a", encoding="utf-8")),
    )
