"""AuTraScale+: throughput, then processing latency, then event-time latency, for all operators.

Source: Zhang et al., "Bayesian-Driven Automated Scaling in Stream Computing With Multiple QoS
Targets", IEEE TPDS 2024. One algorithm per file, in the order in which the paper calls them.
"""
