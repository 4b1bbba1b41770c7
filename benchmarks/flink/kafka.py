"""A real Kafka on this machine, and a job that reads from it and writes to it exactly once.

The broker is one JVM in KRaft mode, on loopback. Its class path and the job with Flink's connector
come from Maven's repository, once. What was committed is counted by a consumer that reads committed
records only.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.flink.maven import digest_of, package, run_maven
from weir_operator.flink.jars import REPOSITORY, find_java
from weir_operator.runtime.processes.processes import LOOPBACK, free_ports

SOURCES = REPOSITORY / "benchmarks/jobs/kafka"
BUILD = REPOSITORY / "build/kafka"
CONNECTORS: Mapping[str, str] = MappingProxyType(
    {"1.20": "3.4.0-1.20", "2.0": "4.0.1-2.0", "2.1": "5.0.0-2.1", "2.2": "5.0.0-2.2"}
)
"""Flink's Kafka connector by version of Flink; later ones take the last."""
START_LIMIT = 60.0
"""Seconds until the broker answers."""
CLIENT: Mapping[str, str | int | bool] = MappingProxyType({"log_level": 0})
"""A broker that is just starting refuses connections, which is no news."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Broker:
    servers: str
    """Where clients find it, `host:port`."""

    def create_topic(self, name: str, *, partitions: int) -> None:
        admin = self.admin()  # held: its requests end with it
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(timeout=START_LIMIT)

    def write(self, topic: str, values: Iterable[int], *, partitions: int) -> None:
        """Write numbers to a topic, in turn to each of the first `partitions`, and wait for it."""
        producer = Producer({**CLIENT, "bootstrap.servers": self.servers, "linger.ms": 5})
        for value in values:
            producer.produce(topic, str(value).encode(), partition=value % partitions)
            producer.poll(0)
        if producer.flush(START_LIMIT):
            raise RuntimeError(f"Expected Kafka to take the records of {topic}, got no answer")

    def read_committed(self, topic: str) -> list[str]:
        """Return the committed records of a topic, up to the first that is in a transaction."""
        consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": self.servers,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        try:
            listed = consumer.list_topics(topic, timeout=START_LIMIT).topics[topic].partitions
            consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in listed])
            values: list[str] = []
            open_partitions = set(listed)
            while open_partitions:
                message = consumer.poll(START_LIMIT)
                if message is None:
                    raise RuntimeError(f"Expected the end of topic {topic}, got no answer")
                error = message.error()
                if error is None:
                    values.append((message.value() or b"").decode())
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise KafkaException(error)
            return values
        finally:
            consumer.close()

    def admin(self) -> AdminClient:
        """Return a client that manages the broker."""
        return AdminClient({**CLIENT, "bootstrap.servers": self.servers})


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """What the job `Payments` has committed."""

    lost: int
    doubled: int
    wrong: int
    """Records whose number among those of their key is not the next one: the state is at fault."""


def count_committed(records: Sequence[str], expected: int) -> Counted:
    """Count what a topic should hold: the numbers below `expected`, each with its place by key."""
    seen = Counter[int]()
    places: dict[int, list[int]] = defaultdict(list)
    for record in records:
        number, place = map(int, record.split(","))
        seen[number] += 1
        places[number % 64].append(place)
    wrong = sum(
        sum(place != index for index, place in enumerate(sorted(found), start=1))
        for found in places.values()
    )
    return Counted(
        lost=expected - len(seen),
        doubled=len(records) - len(seen),
        wrong=wrong,
    )


@contextmanager
def run_broker(folder: Path) -> Iterator[Broker]:
    """Run a broker until the block is left."""
    class_path = os.pathsep.join(str(jar) for jar in sorted(_resolve_broker().glob("*.jar")))
    port, controller = free_ports(2)
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "server.properties"
    properties.write_text(_configure(folder / "log", port, controller))
    java = [str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", class_path]
    with (folder / "output.txt").open("w") as output:
        cluster = ["-t", str(uuid.uuid4()), "-c", str(properties)]
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", *cluster],
            stdout=output,
            stderr=output,
            timeout=START_LIMIT,
            check=True,
        )
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)], stdout=output, stderr=output
        )
    try:
        broker = Broker(servers=f"{LOOPBACK}:{port}")
        try:
            broker.admin().list_topics(timeout=START_LIMIT)
        except KafkaException as error:
            raise RuntimeError(f"Kafka did not start, see {folder}: {error}") from error
        yield broker
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def build_job(home: Path) -> Path:
    """Build the job `Payments` for the Flink in this folder; return its jar."""
    [dist] = (home / "lib").glob("flink-dist-*.jar")
    version = re.sub(r"flink-dist-(\d+\.\d+).*", r"\1", dist.name)
    connector = CONNECTORS.get(version, CONNECTORS["2.2"])
    properties = {"connector": connector, "flink.dist": str(dist)}
    return package(SOURCES, "payments", properties=properties)


def _resolve_broker() -> Path:
    pom = SOURCES / "broker.xml"
    folder = BUILD / f"broker-{digest_of([pom])}"
    if not folder.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as outputs:
            run_maven(pom, "dependency:copy-dependencies", f"-DoutputDirectory={outputs}/jars")
            (Path(outputs) / "jars").replace(folder)
    return folder


def _configure(folder: Path, port: int, controller: int) -> str:
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "log.dirs": folder,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())
