"""Policies that others have published, as rivals for Weir's own."""

from weir_policies.policy import Neighbourhood
from weir_policies.registry import Registered, compiled


def _register(module: str, name: str) -> Registered:
    return compiled(module, name, Neighbourhood.ANY, package=__name__)


CONTTUNE = _register("conttune", "conttune")
CPU_BAND = _register("cpu_band", "cpu-band")
DAEDALUS = _register("daedalus", "daedalus")
DHALION = _register("dhalion", "dhalion")
JUSTIN = _register("justin", "justin")
