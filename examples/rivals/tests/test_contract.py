"""Each rival keeps what Weir asks of every policy."""

from weir_policies.testing.contract import PolicyContract


class TestContTune(PolicyContract):
    name = "conttune"


class TestCpuBand(PolicyContract):
    name = "cpu-band"


class TestDaedalus(PolicyContract):
    name = "daedalus"


class TestDhalion(PolicyContract):
    name = "dhalion"


class TestJustin(PolicyContract):
    name = "justin"
