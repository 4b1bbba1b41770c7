"""The errors of the pure packages; each message says what was expected and what was given."""

from __future__ import annotations

from collections.abc import Sequence


class WeirPolicyError(Exception):
    """Something in the model or a policy was used in a way that cannot be right."""


class DeploymentError(WeirPolicyError):
    """A deployment does not fit its node types."""


class ShapeError(WeirPolicyError):
    """An array's shape does not match the node types or operators it is about."""


class UnknownPolicyError(WeirPolicyError):
    """No policy is registered under this name."""


class PolicyNotLoadedError(WeirPolicyError):
    """A package declares a policy, and it cannot be imported or is none."""


class ParameterError(WeirPolicyError):
    """A policy's parameter is unknown or out of its range."""


class UnknownSettingError(ParameterError):
    """A policy has no parameter of this name."""

    def __init__(self, setting: str, *, policy: str, known: Sequence[str]) -> None:
        super().__init__(
            f"Unknown setting {setting!r} of {policy}; known: {', '.join(known) or 'none'}"
        )
        self.setting = setting
        self.known = tuple(known)


class MissingExtraError(WeirPolicyError):
    """A policy needs a library that is not installed; the message names the extra."""


class CacheError(WeirPolicyError):
    """There is no folder in which compiled functions could be stored."""


class DataflowError(WeirPolicyError):
    """The dataflow is not an acyclic graph over the named operators."""


class StateError(WeirPolicyError):
    """Stored state was written by something else, or by an incompatible version."""


class InfeasibleObjectiveError(WeirPolicyError):
    """No deployment can keep the objective, however little arrives; `least` is what could be."""

    def __init__(self, message: str, *, least: float) -> None:
        super().__init__(message)
        self.least = least
