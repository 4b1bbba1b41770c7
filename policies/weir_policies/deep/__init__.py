"""What the deep policies share: codes of a state, a network, a replay buffer, the live policy.

Only `network` needs torch, from the extra `tune`. The functions here work on `r` runs at once, rows
of one `View`: `r` is 1 where the live policy decides, and as many as there are runs in the
simulator's batched loop.
"""
