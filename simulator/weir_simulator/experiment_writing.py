"""Experiment files: an `Experiment` in, YAML out, which `experiment_files` reads again."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Experiment, TraceSource


def write_experiment(experiment: Experiment, path: Path, *, remarks: tuple[str, ...] = ()) -> None:
    """Write the file that describes an experiment; what has its default is left out.

    Args:
        experiment: What to describe.
        path: The file; the traces are named relative to it, as `load_experiment` wants them.
        remarks: Lines to write above, as comments.

    Raises:
        ExperimentError: The file cannot be written.
    """
    here = experiment.model_copy(
        update={
            "trace": _seen_from(experiment.trace, path),
            "training": None
            if experiment.training is None
            else _seen_from(experiment.training, path),
        }
    )
    plain = here.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100)
    head = "".join(f"# {line}\n" for line in remarks)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(head + text, encoding="utf-8")
    except OSError as error:
        raise ExperimentError(
            (f"{path}: expected to write an experiment, got an error ({error.strerror}); "
             "choose another place",)
        ) from error  # fmt: skip


def _seen_from(source: TraceSource, path: Path) -> TraceSource:
    if source.file is None:
        return source
    file = Path(os.path.relpath(source.file, path.parent))
    return source.model_copy(update={"file": file})
