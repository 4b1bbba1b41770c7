"""kubectl itself, for tests that run commands as a user would copy them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.api.assets import build_program
from tests.docs.blocks import ROOT

GO = Path(__file__).parent / "go"


def find_or_build_kubectl() -> Path:
    """Return kubectl in the version of the API server, built once for each content of its module.

    Raises:
        MissingProgramError: There is no Go.
    """
    pinned = b"".join((GO / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    folder = ROOT / "build/kubectl" / hashlib.sha256(pinned).hexdigest()[:12]
    build_program(module=GO, package=".", output=folder / "kubectl")
    return folder / "kubectl"
