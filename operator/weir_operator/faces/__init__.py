"""What people see of a run: the live view in the terminal and the HTML report.

Fed by the plain values of `run_record`, which are also the JSON lines that programs read. Nothing
here talks to Flink, to Kubernetes or to a clock.
"""
