"""What tests and benchmarks read of a job's output."""

from __future__ import annotations

from pathlib import Path


def committed_lines(folder: Path) -> list[str]:
    """Return the lines of the committed files in and below a folder; others have hidden names."""
    return [
        line
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith((".", "_"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
