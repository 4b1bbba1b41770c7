"""Settings that the deep policies share."""

from __future__ import annotations

from dataclasses import dataclass

from weir_policies.deep.encodings import Encoding
from weir_policies.errors import ParameterError
from weir_policies.kernels.levels import LearningParameters
from weir_policies.parameters import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class DeepParameters(LearningParameters):
    """Settings of `dqn`, `dqn-pds` and `dqn-pds-plus`.

    Sources of the defaults: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, appendix B, and for
    what it leaves open (learning rate, memory, batch) the program behind its tables.
    """

    encoding: Encoding = Encoding.REDUCED2
    """How a state becomes the network's inputs."""
    hidden_layers: int = setting(3, low=1, high=10, whole=True)
    hidden_ratio: float = setting(0.75, low=0, high=10, low_allowed=False)
    """Neurons of a hidden layer per neuron of the layer before it."""
    learning_rate: float = setting(0.1, low=0)
    """Step of the stochastic gradient descent."""
    memory: int = setting(10_000, low=1, high=10_000_000, whole=True)
    """Intervals that the replay buffer holds; the oldest is overwritten."""
    batch: int = setting(32, low=1, high=10_000, whole=True)
    """Intervals drawn from the buffer for one step; none is made before it holds so many."""
    fit_every: int = setting(5, low=1, high=1_000_000, whole=True)
    """Intervals from one step to the next."""
    published: int = setting(0, low=0, high=1)
    """1 does as the program behind the published tables: no replicas of a type are encoded as in
    `encodings`, and the target of `dqn` may take an action that is not valid."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        LearningParameters.__post_init__(self)
        if self.batch > self.memory:
            raise ParameterError(
                f"Expected batch of at most memory = {self.memory}, got {self.batch}"
            )

    def size_layers(self, inputs: int, outputs: int) -> tuple[int, ...]:
        """Return the neurons of each layer, inputs and outputs included."""
        sizes = [inputs]
        for _ in range(self.hidden_layers):
            # Half a neuron is rounded up, as Java rounds: the published sizes depend on it.
            sizes.append(max(int(self.hidden_ratio * sizes[-1] + 0.5), 1))
        return (*sizes, outputs)
