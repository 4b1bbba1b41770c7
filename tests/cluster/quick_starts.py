"""Flink's configuration for pods that live for a minute or two."""

C1_ONLY = "-XX:TieredStopAtLevel=1"
"""Else a JVM's second compiler takes much of a small machine's processors while it starts."""

QUICK_STARTS = {"env.java.opts.all": C1_ONLY}
