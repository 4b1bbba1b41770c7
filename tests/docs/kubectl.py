"""kubectl itself, for tests that run commands as a user would copy them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

from tests.api.assets import build_program
from tests.docs.blocks import ROOT

GO = Path(__file__).parent / "go"
OLDEST = 32
"""Minor version of a kubectl that shows all that the pages show. Building one takes 3 minutes."""


def find_or_build_kubectl() -> Path:
    """Return the kubectl on the PATH, else one built once for each content of its module.

    Raises:
        MissingProgramError: There is none that is new enough, and no Go to build one.
    """
    found = shutil.which("kubectl")
    if found is not None and _minor_version(found) >= OLDEST:
        return Path(found)
    pinned = b"".join((GO / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    folder = ROOT / "build/kubectl" / hashlib.sha256(pinned).hexdigest()[:12]
    build_program(module=GO, package=".", output=folder / "kubectl")
    return folder / "kubectl"


def _minor_version(kubectl: str) -> int:
    answer = subprocess.run([kubectl, "version", "--client", "--output=json"], capture_output=True,
                            text=True, check=True)  # fmt: skip
    return int(re.sub(r"\D", "", json.loads(answer.stdout)["clientVersion"]["minor"]))
