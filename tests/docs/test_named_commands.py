"""Commands that stand within a sentence exist, with the options and targets that are named."""

import re

import pytest

from tests.docs.blocks import ROOT, read_spans
from weir_cli.main import COMMANDS, load_command

SPANS = read_spans()


def spans_of(program):
    found = [span for span in SPANS if span.text.startswith(f"{program} ")]
    return [pytest.param(span, id=str(span)) for span in found]


@pytest.mark.parametrize("span", spans_of("weir"))
def test_a_command_of_weir_that_is_named_exists(span):
    _, name, *rest = span.text.split()

    if name in COMMANDS:
        command = load_command(name)
        while rest and rest[0] in getattr(command, "commands", {}):
            command = command.commands[rest.pop(0)]
        known = [option for each in command.params for option in each.opts]
        assert {word for word in rest if word.startswith("--")} <= {*known, "--help"}
    else:
        assert name in ("COMMAND", "--help")


@pytest.mark.parametrize("span", spans_of("make"))
def test_a_target_of_make_that_is_named_exists(span):
    targets = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.M)
    benchmark = re.search(r"NAME=([a-z0-9-]+)", span.text)

    assert span.text.split()[1] in targets
    if benchmark is not None:
        assert list((ROOT / "benchmarks").glob(f"**/{benchmark[1].replace('-', '_')}.py"))


@pytest.mark.parametrize("span", [*spans_of("kubectl"), *spans_of("helm")])
def test_a_command_for_a_cluster_that_is_named_is_taken_by_its_api_server(on_a_cluster, span):
    done = on_a_cluster(span.text)

    assert done.returncode == 0, f"{span.text}\n{done.stdout}\n{done.stderr}"
