"""Where Flink's processes run: the protocol, with local processes and pods as implementations."""
