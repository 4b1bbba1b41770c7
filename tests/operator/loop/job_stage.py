"""A lifecycle over a miniature world, for the tests of what happens to a job."""

from tests.operator.rescale.bench import NAMES, ONE, engine_parts
from tests.operator.rescale.fakes import FakeClock, FakeWorld, MemoryStatusStore
from weir_operator.loop.directives import Directives
from weir_operator.loop.lifecycle import FirstStart, Lifecycle
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.settings import RescaleSettings
from weir_operator.runtime.revision import Revision
from weir_operator.streamapp.models import State
from weir_policies.model.node_types import NodeType
from weir_policies.testing import a_model

SUSPENDED = Directives(state=State.SUSPENDED)


def a_revision(*arguments):
    return Revision(arguments=arguments, parallelism_arguments=NAMES)


def asking_for(*arguments):
    return Directives(revision=a_revision(*arguments))


TYPES = (
    NodeType(name="small/250m", pool="small", speedup=0.25, price=0.01),
    NodeType(name="small/500m", pool="small", speedup=0.5, price=0.02),
    NodeType(name="large/1", pool="large", speedup=1.6, price=0.05),
)
TWO = {"match": {"small/250m": 2}}


class Stage:
    """A lifecycle over a miniature world, and what it told."""

    def __init__(self, settings=None, node_types=TYPES):
        self.settings = settings or RescaleSettings()
        self.node_types = node_types
        self.clock = FakeClock()
        self.world = FakeWorld(self.clock)
        self.store = MemoryStatusStore()
        self.events = []
        self.changes = []
        self.directives = Directives()
        self.checks = None

    def lifecycle(self, initial=ONE, initial_savepoint=None, restore_nonce=0, max_replicas=10):
        parts = engine_parts(self.world, self.store, self.settings)
        return Lifecycle(
            parts,
            rescaler=Rescaler(parts),
            start=FirstStart(
                deployments=initial, savepoint=initial_savepoint, restore_nonce=restore_nonce
            ),
            on_event=self.events.append,
            on_change=self.changes.append,
            directives=lambda: self.directives,
            checks=self.checks,
            models={
                "match": a_model(
                    name="match", node_types=self.node_types, max_replicas=max_replicas
                )
            },
        )

    async def running(self):
        lifecycle = self.lifecycle()
        await lifecycle.bring_up()
        self.world.process(50)
        return lifecycle

    @property
    def reasons(self):
        return [event.reason for event in self.events]

    def exact(self):
        self.world.process(10)
        return self.world.lost_and_doubled() == (0, 0)
