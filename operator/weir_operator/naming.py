"""Names that Kubernetes takes, made of names that people gave."""

from __future__ import annotations

import re


def plain_name(text: str, *, longest: int, otherwise: str = "vertex") -> str:
    """Return the text as a name of lower-case letters, digits and hyphens.

    Args:
        text: A name of any characters.
        longest: Characters of the result.
        otherwise: The result where nothing of the text is left.
    """
    plain = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
    return plain[:longest].strip("-") or otherwise
