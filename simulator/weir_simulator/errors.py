"""The errors of the simulated world."""


class SimulatorError(Exception):
    """Base of what the simulator raises."""


class TraceError(SimulatorError):
    """An arrival trace that cannot be right, or that cannot be read or written."""
