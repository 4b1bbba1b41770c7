"""How Weir is called where it is installed from."""

DISTRIBUTION = "weir-flink"
"""Weir's name on PyPI, where `weir` is another project."""


def install_command(extra: str) -> str:
    """Return the command that installs Weir with an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
