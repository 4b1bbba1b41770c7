"""The errors of the simulator."""


class SimulatorError(Exception):
    """Base of what the simulator raises."""


class TraceError(SimulatorError):
    """An arrival trace that cannot be right, or that cannot be read or written."""


class FitError(SimulatorError):
    """Samples or a structure that no simulator can be fitted to."""


class ExperimentError(SimulatorError):
    """An experiment that cannot be right; `mistakes` has one sentence for each mistake."""

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class TuningError(SimulatorError):
    """A tuning order, or a study on disk, that cannot be worked on."""
