"""`examples/wordcount` on real Flink: scaled by AuTraScale+, and every word counted once."""

import csv
import json
from collections import Counter

import pytest
import yaml

from weir_operator.flink.jars import REPOSITORY, build_example

EXAMPLE = REPOSITORY / "examples/wordcount"
SEED, WORDS, VOCABULARY = 7, 3, 200
MASK = 2**64 - 1
BURNING = ("tokenize", "count")


def draw_bits(seed, index):
    """Return 64 well-mixed bits (the finaliser of SplitMix64), as the job's `Draws` does."""
    mixed = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & MASK
    return mixed ^ mixed >> 31


def hash_of(text):
    """Return Java's hash code of a text."""
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def count_plainly(lines):
    """Return how often each word comes in so many lines."""
    seed = draw_bits(SEED, hash_of("word"))
    return Counter(draw_bits(seed, each) % VOCABULARY for each in range(lines * WORDS))


def read_arrivals(folder):
    """Return (word, how often it had come) of every record that reached the sink."""
    arrivals = []
    for path in folder.glob("raw-*.csv"):
        with path.open() as file:
            arrivals += [(int(row["zone"]), int(row["number"])) for row in csv.DictReader(file)]
    return arrivals


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.timeout(900)  # many JVMs start, which takes minutes on a busy machine
def test_autrascale_gives_word_count_enough_in_few_restarts_and_no_word_is_missed(
    tmp_path, run_locally
):
    manifest = yaml.safe_load((EXAMPLE / "streamapp.yaml").read_text())
    job = manifest["spec"]["flink"]["job"]
    job["jar"] = str(build_example("wordcount"))
    trace = tmp_path / "trace.txt"
    trace.write_text("40\n" * 7)
    # Time passes and no CPU is taken: one replica of each carries half of what comes, two carry it.
    job["args"] = [
        *("--trace", str(trace), "--at-end", "finish", "--out", str(tmp_path / "out")),
        *("--service.tokenize-ms", "40", "--service.count-ms", "13"),
        *("--vocabulary", str(VOCABULARY), "--seed", str(SEED)),
    ]
    manifest["spec"]["operatorManager"] = {
        "interval": "3s",
        "policy": {"name": "autrascale", "settings": {"settle": 3, "runs": 2}},
    }

    told = run_locally(manifest)

    assert told.summary is not None
    assert 1 <= told.summary.restarts <= 4
    # At any tick: once the trace has passed fewer are right again, which a slow machine sees too.
    assert any(
        min(sum(each.replicas.values()) for each in tick.operators if each.name in BURNING) >= 2
        for tick in told.ticks
    )
    lines = json.loads((tmp_path / "out/source.json").read_text())["emitted"]
    numbers = Counter(word for word, _ in read_arrivals(tmp_path / "out"))
    assert numbers == count_plainly(lines)
    assert len(set(read_arrivals(tmp_path / "out"))) == lines * WORDS  # 1, 2, 3 ... of each word
