"""Building an image needs nothing that its list of files for the builder keeps back."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest


@pytest.mark.parametrize(
    ("dockerfile", "ignored"),
    [
        ("Dockerfile", ".dockerignore"),
        ("examples/trips/Dockerfile", "examples/trips/Dockerfile.dockerignore"),
    ],
)
def test_every_file_that_a_dockerfile_copies_reaches_the_builder(root, dockerfile, ignored):
    let_through = allowed((root / ignored).read_text())

    wanted = copied((root / dockerfile).read_text())

    kept_back = [each for each in wanted if not let_through & {each, *each.parents}]
    assert wanted
    assert not kept_back, f"{ignored} keeps them back"


def allowed(listing: str) -> set[PurePosixPath]:
    """Return what a list lets through that begins by keeping everything back."""
    first, *others = [line for line in listing.splitlines() if line and not line.startswith("#")]
    assert first == "*"
    return {PurePosixPath(line.removeprefix("!")) for line in others if line.startswith("!")}


def copied(dockerfile: str) -> list[PurePosixPath]:
    """Return the files and folders that come from the context and not from another stage."""
    steps = [line.split() for line in dockerfile.splitlines() if line.startswith("COPY ")]
    return [
        PurePosixPath(source)
        for _, *sources, _ in steps
        if not sources[0].startswith("--from")
        for source in sources
    ]
