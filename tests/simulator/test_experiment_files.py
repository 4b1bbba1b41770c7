import re
from pathlib import Path

import pytest

from tests.simulator.builders import an_experiment
from weir_policies import registry
from weir_policies.model.objective import Statistic
from weir_policies.policy import CostWeights
from weir_simulator.arrivals import arrival_rates
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Believed, Change, Experiment, Objective, PathBound, World
from weir_simulator.experiment_files import load_experiment, write_experiment

ROOT = Path(__file__).parents[2]
RIGHT = """\
operators:
  - {name: parse, serviceRate: 180, scv: 0.5, maxReplicas: 10}
  - {name: match, serviceRate: 90, maxReplicas: 10}
edges: [[parse, match]]
nodeTypes:
  - {name: t1, speedup: 1.0, price: 1.0}
  - {name: t2, speedup: 0.7, price: 0.7}
objective: {responseTime: 50ms}
trace: {kind: taxi, slots: 100}
policy: {name: ql-pds, parameters: {}}
"""


@pytest.fixture
def folder(tmp_path_factory):
    """Return a folder with a short name, because sentences cut values that are long."""
    return tmp_path_factory.mktemp("x")


@pytest.fixture
def write(folder):
    """Write an experiment, with one piece of the right one replaced."""

    def write_file(old: str = "", new: str = "") -> Path:
        assert old in RIGHT
        path: Path = folder / "experiment.yaml"
        path.write_text(RIGHT.replace(old, new, 1) if old else RIGHT + new)
        return path

    return write_file


@pytest.fixture
def page_on_experiments():
    return (ROOT / "docs/experiments.md").read_text()


def mistakes_in(path: Path) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        load_experiment(path)
    return [sentence.removeprefix(f"{path}:") for sentence in caught.value.mistakes]


def test_a_right_file_is_read(write):
    experiment = load_experiment(write())

    assert [operator.name for operator in experiment.operators] == ["parse", "match"]
    assert experiment.operators[0].scv == 0.5
    assert experiment.objective.response_time == pytest.approx(0.05)
    assert experiment.dataflow.sinks == ("match",)
    assert experiment.policy.name == "ql-pds"


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("50ms", 0.05), ("2m", 120.0), ("1h30m", 5400.0), ("1.5s", 1.5)],
)
def test_durations_are_read_with_their_unit(write, written, seconds):
    experiment = load_experiment(write("50ms", written))

    assert experiment.objective.response_time == pytest.approx(seconds)


def test_edges_may_be_pairs_or_mappings(write):
    path = write("[[parse, match]]", "[{from: parse, to: match, selectivity: 0.5}]")

    edge = load_experiment(path).edges[0]

    assert (edge.source, edge.target, edge.selectivity) == ("parse", "match", 0.5)


def test_a_power_of_ten_is_a_number(write):
    path = write(new="world: {lossProbability: 1e-4}\n")

    assert load_experiment(path).world.loss_probability == 1e-4


def test_a_trace_is_looked_for_beside_the_file(write, folder):
    (folder / "rates.txt").write_text("1\n2\n3\n4\n")
    path = write("{kind: taxi, slots: 100}", "{file: rates.txt, start: 1, slots: 2}")

    rates = arrival_rates(load_experiment(path).trace)

    assert rates.tolist() == [2.0, 3.0]


def test_another_trace_replaces_the_files_own_as_a_whole(write, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("5\n6\n")
    path = write("{kind: taxi, slots: 100}", "{file: no.txt, slots: 100}")

    experiment = load_experiment(path, trace=other)

    assert arrival_rates(experiment.trace).tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        (
            "serviceRate: 180", "serviceRate: -5",
            "2: operators[0].serviceRate: expected more than 0, got -5; write, for example, 180",
        ),
        (
            "serviceRate: 180", "servicerate: 180",
            "2: operators[0].serviceRate: expected a value, got nothing; add it, such as 180",
        ),
        (
            "maxReplicas: 10}\nedges", "maxReplicas: 2.5}\nedges",
            "3: operators[1].maxReplicas: expected a whole number, got 2.5; write, for example, 10",
        ),
        (
            "maxReplicas: 10}\nedges", "maxReplicas: 10, pools: [t2, t3]}\nedges",
            "3: operators[1].pools[1]: expected a pool (t1, t2), got 't3'; "
            "choose one of them, or add a type of the pool",
        ),
        (
            "maxReplicas: 10}\nedges", "maxReplicas: 10, pools: [t2, t2]}\nedges",
            "3: operators[1].pools[1]: expected each pool once, got 't2'; remove this one",
        ),
        (
            "maxReplicas: 10}\nedges", "maxReplicas: 10, pools: []}\nedges",
            '3: operators[1].pools: expected at least one entry, got []; write, for example, '
            '["small"]',
        ),
        (
            "maxReplicas: 10}\nedges: [[parse, match]]",
            "maxReplicas: 10, pools: [t2]}\ninitial: {t1: 2}\nedges: [[parse, match]]",
            '4: initial: expected from 1 to 10 replicas of match in t2, got {"t1": 2}; '
            "add replicas",
        ),
        (
            "[[parse, match]]", "[[parse, mach]]",
            "4: edges[0]: expected an operator (parse, match), got 'mach'; did you mean 'match'?",
        ),
        (
            "[[parse, match]]", "[[parse]]",
            "4: edges[0]: expected a pair of operators, [from, to], got [\"parse\"]; "
            "write, for example, [a, b]",
        ),
        (
            "[[parse, match]]", "[[parse, match], [match, parse]]",
            '4: edges: expected edges without a cycle, got [["parse", "match"], ["match", "parse"]]'
            "; remove one of its edges: Expected no cycle, got parse -> match -> parse",
        ),
        (
            "speedup: 0.7", "speedup: .inf",
            "7: nodeTypes[1].speedup: expected a finite number, got Infinity; "
            "write, for example, 1.0",
        ),
        (
            "name: t2", "name: t1",
            "7: nodeTypes[1].name: expected another name than nodeTypes[0], got 't1'; "
            "rename one of them",
        ),
        (
            "50ms", "50",
            "8: objective.responseTime: expected a duration, such as 50ms, 90s, 2m or 1h30m, "
            "got 50; add its unit, for example 50ms or 50s",
        ),
        (
            "{kind: taxi, slots: 100}", "{file: no.txt}",
            "9: trace.file: expected a file with one rate per line, got '{folder}/no.txt'; "
            "which does not exist: correct the path, or generate a trace with kind: taxi",
        ),
        (
            "{kind: taxi, slots: 100}", "{slots: 100}",
            '9: trace: expected either a file or a kind, got {"file": null, "kind": null}; '
            "write file: taxi.txt to read a trace, or kind: taxi to generate one",
        ),
        (
            "name: ql-pds", "name: ql-psd",
            "10: policy.name: expected a policy ({policies}), got 'ql-psd'; "
            "did you mean 'ql-pds'?",
        ),
        (
            "parameters: {}", "parameters: {levels: 2.5}",
            "10: policy.parameters.levels: expected a whole number for levels, got 2.5; "
            "correct it, or remove it to use its default",
        ),
        (
            "", "wieghts: {}\n",
            "11: wieghts: expected a known field, got {}; did you mean 'weights'?",
        ),
        (
            "", "weights: 3\n",
            "11: weights: expected a mapping of fields, got 3; correct it",
        ),
        (
            "", "initial: {t1: 6, t2: 5}\n",
            "11: initial: expected from 1 to 10 replicas of parse, "
            'got {"t1": 6, "t2": 5}; remove replicas',
        ),
        (
            "", "seeds: [1, 1]\n",
            "11: seeds: expected distinct seeds, got [1, 1]; "
            "equal seeds give equal runs: keep each once",
        ),
        ("", "step: 2\n", "11: step: expected 1 or 'any', got 2; choose one of them"),
        (
            "", "sharing: fair\n",
            "11: sharing: expected 'Equal', 'Proportional' or 'ByLoad', got 'fair'; "
            "choose one of them",
        ),
        (
            "", "world: {downtime: -3s}\n",
            "11: world.downtime: expected a duration, such as 50ms, 90s, 2m or 1h30m, got '-3s'; "
            "correct the number or its unit",
        ),
        (
            "", "world:\n  changes:\n    - {slot: 5, prices: {t4: 100}}\n",
            "13: world.changes[0].prices.t4: expected a node type (t1, t2), got 't4'; "
            "choose one of them, or add the type",
        ),
        (
            "", "believed: {serviceTime: 1.1, serviceError: [0.05, 0.1]}\n",
            "11: believed.serviceTime: expected either serviceTime or serviceError, got 1.1; "
            "remove one of them",
        ),
        (
            "{name: ql-pds, parameters: {}}", "{name: ql-pds, settings: {}}",
            "10: policy.settings: expected a known field, got {}; "
            "write parameters, because only StreamApps call them settings",
        ),
        (
            "{name: ql-pds, parameters: {}}",
            "{name: mdp-rl, parameters: {centralised: 1, node_type: 7}}",
            "10: policy.parameters: expected parameters with which mdp-rl can decide for all "
            'operators together, got {"centralised": 1, "node_type": 7}; expected node_type of '
            "mdp-rl below 2, the number of node types, got 7; give the index of the type that it "
            "adds, from 0",
        ),
        ("", "step: any\nstep: 1\n",
            "12: step: expected each field once, got a duplicate; remove it or the one in line 11"),
        ("", "rate: [\n",
            "12: expected YAML, got an error (expected the node content, but found "
            "'<stream end>'); correct this line, or the indentation above it"),
    ],
)  # fmt: skip
def test_each_mistake_is_a_sentence_with_line_field_value_and_remedy(write, old, new, mistake):
    path = write(old, new)

    found = mistakes_in(path)

    expected = mistake.replace("{folder}", str(path.parent))
    expected = expected.replace("{policies}", ", ".join(registry.names()))
    assert expected in found


def test_every_mistake_is_told_once_in_the_order_of_the_lines(write):
    path = write("serviceRate: 180", "serviceRate: x")
    path.write_text(path.read_text().replace("50ms", "soon") + "initial: {t9: 1}\nsteps: 1\n")

    found = mistakes_in(path)

    assert [sentence.split(":")[:2] for sentence in found] == [
        ["2", " operators[0].serviceRate"],
        ["8", " objective.responseTime"],
        ["11", " initial.t9"],
        ["12", " steps"],
    ]


def test_a_trace_with_a_bad_line_is_named_with_both_lines(write, folder):
    (folder / "rates.txt").write_text("1\nx\n")
    path = write("{kind: taxi, slots: 100}", "{file: rates.txt}")

    [mistake] = mistakes_in(path)

    assert mistake.startswith(f"9: trace.file: Trace {folder}/rates.txt, line 2: 'x' is not a")


def test_a_stretch_that_leaves_its_trace_is_refused(write, folder):
    (folder / "rates.txt").write_text("1\n2\n")
    path = write("{kind: taxi, slots: 100}", "{file: rates.txt, slots: 3}")

    assert mistakes_in(path) == [
        "9: trace.slots: slots is 3; give 1 to 2, as many as the trace has"
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "expected an experiment, got an empty file; start with operators:"),
        (b"- 1\n", "the experiment: expected a mapping of fields, got [1]; correct it"),
        (b"a: 1\n---\nb: 2\n", "expected YAML, got an error (but found another document)"),
        (b"a: &a [*a]\n", "expected YAML, got an alias that contains itself"),
        (b"\xff", "expected text in UTF-8, got byte 0xff at position 0; save the file as UTF-8"),
    ],
)
def test_what_is_no_experiment_at_all_is_refused_in_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "experiment.yaml"
    path.write_bytes(content)

    [mistake] = mistakes_in(path)

    assert sentence in mistake


def test_an_absent_file_is_refused_by_its_path(tmp_path):
    with pytest.raises(ExperimentError, match=r"absent\.yaml: .*No such file.*correct the path"):
        load_experiment(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "examples/experiments").glob("*.yaml")),
    ids=lambda path: path.stem,
)
def test_the_examples_are_right_on_every_machine(path):
    experiment = load_experiment(path)

    assert experiment.trace.kind is not None
    assert experiment.seeds


def test_the_page_on_experiments_shows_one_that_is_right(page_on_experiments, tmp_path):
    [shown] = re.findall(r"```yaml\n(.*?)```", page_on_experiments, flags=re.DOTALL)
    path = tmp_path / "shown.yaml"
    path.write_text(shown)

    assert load_experiment(path).policy.name == "planner"


def test_the_page_on_experiments_names_every_field(page_on_experiments):
    schema = Experiment.model_json_schema(by_alias=True)
    fields = {
        field
        for section in (schema, *schema["$defs"].values())
        for field in section.get("properties", {})
    }

    named = set(re.findall(r"\w+", page_on_experiments))

    assert fields - named == set()


EVERYTHING = an_experiment(
    operators=[
        {"name": "a", "service_rate": 123.456, "scv": 0.5, "max_replicas": 9, "budget": 0.0123},
        {"name": "b", "service_rate": 1e3, "max_replicas": 4, "sharing": "Proportional"},
    ],
    edges=[{"source": "a", "target": "b", "selectivity": 0.25}],
    weights=CostWeights(violation=1 / 3, resources=0.5, reconfiguration=1 / 6),
    world=World(
        downtime=2.5, provisioning_delay=60.0, loss_probability=1e-5,
        changes=(Change(slot=4, rate=1.5, prices={"t1": 2.0}),),
    ),
    believed=Believed(speedups={"t2": 0.6}),
    objective=Objective(
        response_time=0.3, statistic=Statistic.P95, tail=2.5,
        paths=(PathBound(sink="b", response_time=0.1, statistic=Statistic.P99),),
    ),
    policy={"name": "planner", "parameters": {}},
    seeds=(3, 4),
    step="any",
)  # fmt: skip


@pytest.mark.parametrize("experiment", [an_experiment(), EVERYTHING], ids=["short", "long"])
def test_what_was_written_is_read_again(experiment, tmp_path):
    path = tmp_path / "deep" / "experiment.yaml"

    write_experiment(experiment, path)

    assert load_experiment(path) == experiment


def test_traces_are_found_from_the_new_place(tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "rates.txt").write_text("10\n20\n30\n")
    experiment = an_experiment(
        trace={"file": traces / "rates.txt", "slots": 2}, training={"file": traces / "rates.txt"}
    )
    path = tmp_path / "out" / "experiment.yaml"

    write_experiment(experiment, path)

    assert "file: ../traces/rates.txt" in path.read_text()
    read = load_experiment(path)
    for source in (read.trace, read.training):
        assert source is not None
        assert source.file is not None
        assert source.file.resolve() == traces / "rates.txt"


def test_remarks_stand_above_as_comments(tmp_path):
    path = tmp_path / "experiment.yaml"

    write_experiment(an_experiment(), path, remarks=("Tuned for 50 ms.", "Try it."))

    assert path.read_text().startswith("# Tuned for 50 ms.\n# Try it.\noperators:")


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ExperimentError, match="expected to write an experiment, got an error"):
        write_experiment(an_experiment(), tmp_path / "file" / "experiment.yaml")
