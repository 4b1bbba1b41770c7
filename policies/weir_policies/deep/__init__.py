"""What the deep policies share: encodings of a state, a network, a replay buffer, the live policy.

Only `network` needs torch, from the extra `tune`. The functions here work on `r` runs at once, the
rows of one `View`: `r` is 1 for a live policy, and the number of runs in the simulator's batched
loop.
"""
