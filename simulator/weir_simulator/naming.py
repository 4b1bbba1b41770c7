"""Names that Kubernetes takes, made of names that people gave."""

from __future__ import annotations

import re
import unicodedata


def plain_name(text: str, *, longest: int, otherwise: str = "vertex") -> str:
    """Return the text as a name of lower-case letters, digits and hyphens.

    Args:
        text: A name of any characters.
        longest: Characters of the result.
        otherwise: The result where nothing of the text is left.
    """
    letters = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    ascii_only = re.sub("[\u0300-\u036f]", "", letters)  # accents, which stand by themselves now
    plain = re.sub("[^a-z0-9]+", "-", ascii_only).strip("-")
    return plain[:longest].strip("-") or otherwise
