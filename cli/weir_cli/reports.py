"""Where the reports of a command go: one page in a folder of its own."""

from __future__ import annotations

from pathlib import Path

from weir_simulator.errors import SimulatorError

REPORT = "report.html"


def write_report(folder: Path, page: str) -> Path:
    """Write the page into the folder, which is made where it is missing; return its path.

    Raises:
        SimulatorError: It cannot be written.
    """
    report = folder / REPORT
    try:
        folder.mkdir(parents=True, exist_ok=True)
        report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SimulatorError(
            f"Report {report} cannot be written: {error.strerror}; choose another --out"
        ) from error
    return report
