"""Where the metrics of an estimate come from, and the StreamApp that it begins with."""
