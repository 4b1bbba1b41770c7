"""Options of the JVMs in tests on a cluster, which live for a minute or two."""

C1_ONLY = "-XX:TieredStopAtLevel=1"
"""Else a JVM's second compiler takes much of a small machine's processors while it starts."""

FLINK_CONFIG = {"env.java.opts.all": C1_ONLY}
"""Flink's configuration with them."""
