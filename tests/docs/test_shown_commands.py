"""Every command that a page shows runs, and every manifest that it shows is accepted.

The blocks are run as they are written; `stand_ins.py` says what is real about the programs that
they meet.
"""

import json
import re

import jsonschema
import pytest
import yaml

from tests.docs.blocks import ROOT, read_blocks
from weir_operator.streamapp.loading import parse_manifest
from weir_simulator.experiment_files import load_experiment

BLOCKS = read_blocks()
COMMANDS = [block for block in BLOCKS if block.language == "bash"]
VALUES = json.loads((ROOT / "helm/weir/values.schema.json").read_text())
"""Schema of the chart's values."""
OTHERS = {"yaml", "yml", "diff", "text", "python", "java"}
"""Languages of blocks that hold no commands."""

NEEDS_A_CLUSTER = re.compile(r"\b(kubectl|helm) ")
RUNS_A_JOB = re.compile(r"\bweir (local (streamapp|trips)|graph )")
TAKES_LONG = re.compile(r"\bweir pipelines run")


def commands_of(block):
    """Return the commands of a block, without comments and wherever `weir` is."""
    return tuple(re.sub(r"\s+#.*|\.venv/bin/", "", line) for line in block.text.splitlines())


REVERSED = [each for each in reversed(COMMANDS) if not NEEDS_A_CLUSTER.search(each.text)]
LOCAL = [*{commands_of(each): each for each in REVERSED}.values()][::-1]
"""Where several pages show the same, the first block."""
ON_A_CLUSTER = [each for each in COMMANDS if NEEDS_A_CLUSTER.search(each.text)]


def test_every_block_says_its_language_so_that_no_command_is_missed():
    unknown = [str(block) for block in BLOCKS if block.language not in OTHERS | {"bash"}]

    assert unknown == []


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            block,
            id=str(block),
            marks=[
                *[pytest.mark.flink] * bool(RUNS_A_JOB.search(block.text)),
                *[pytest.mark.long] * bool(TAKES_LONG.search(block.text)),
            ],
        )
        for block in LOCAL
    ],
)
def test_what_a_page_lets_run_on_a_machine_runs(here, block):
    done = here(block.text)

    assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("block", [pytest.param(block, id=str(block)) for block in ON_A_CLUSTER])
def test_what_a_page_lets_run_on_a_cluster_is_taken_by_its_api_server(on_a_cluster, block):
    done = on_a_cluster(block.text)

    assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"


def documents():
    for block in BLOCKS:
        if block.language == "yaml":
            for number, document in enumerate(yaml.safe_load_all(block.text)):
                yield pytest.param(block, document, id=f"{block}-{number}")


@pytest.mark.parametrize(("block", "document"), list(documents()))
def test_a_file_that_a_page_shows_is_accepted(block, document, tmp_path):
    if document.get("kind") == "StreamApp":
        assert parse_manifest(document).metadata.name == "trips"
    elif "nodeTypes" in document:
        (tmp_path / "taxi.txt").write_text("1\n" * 100)
        (tmp_path / "shown.yaml").write_text(yaml.safe_dump(document))
        assert load_experiment(tmp_path / "shown.yaml").operators
    elif set(document) <= set(VALUES["properties"]):
        jsonschema.validate(document, VALUES)
    else:
        reference = (ROOT / "docs/reference/streamapp.md").read_text()
        assert set(document) <= {"metadata", "spec"}
        assert [name for name in document["spec"] if f"`{name}`" not in reference] == []
