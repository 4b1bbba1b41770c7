"""Settings that the deep policies share."""

from __future__ import annotations

from dataclasses import dataclass

from weir_policies.deep.encodings import Encoding
from weir_policies.errors import ParameterError
from weir_policies.kernels.levels import LearningParameters
from weir_policies.parameters import refuse_outside


@dataclass(frozen=True, kw_only=True, slots=True)
class DeepParameters(LearningParameters):
    """Settings of `dqn`, `dqn-pds` and `dqn-pds-plus`.

    Sources of the defaults: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, appendix B, and for
    what it leaves open (learning rate, memory, batch) the program behind its tables.
    """

    encoding: Encoding = Encoding.REDUCED2
    """How a state becomes the network's inputs."""
    hidden_layers: int = 3
    hidden_ratio: float = 0.75
    """Neurons of a hidden layer per neuron of the layer before it."""
    learning_rate: float = 0.1
    """Step of the stochastic gradient descent."""
    memory: int = 10_000
    """Intervals that the replay buffer holds; the oldest is overwritten."""
    batch: int = 32
    """Intervals drawn from the buffer for one step; none is made before it holds so many."""
    fit_every: int = 5
    """Intervals from one step to the next."""
    published: int = 0
    """1 does as the program behind the published tables: no replicas of a type are encoded as in
    `encodings`, and the target of `dqn` may take an action that is not valid."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        LearningParameters.__post_init__(self)
        refuse_outside("hidden_ratio", self.hidden_ratio, low=0, high=10, low_allowed=False)
        refuse_outside("learning_rate", self.learning_rate, low=0)
        for name, high in (
            ("hidden_layers", 10),
            ("memory", 10_000_000),
            ("batch", 10_000),
            ("fit_every", 1_000_000),
        ):
            refuse_outside(name, getattr(self, name), low=1, high=high, whole=True)
        if self.batch > self.memory:
            raise ParameterError(
                f"Expected batch of at most memory = {self.memory}, got {self.batch}"
            )
        refuse_outside("published", self.published, low=0, high=1)

    def size_layers(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Return the neurons of each layer, inputs and outputs included."""
        sizes = [inputs]
        for _ in range(self.hidden_layers):
            # Half a neuron is rounded up, as Java rounds: the published sizes depend on it.
            sizes.append(max(int(self.hidden_ratio * sizes[-1] + 0.5), 1))
        return (*sizes, outputs)
