"""An experiment of one operator, to which the tests of a command add lines."""

SMALL = """\
operators: [{name: op, serviceRate: 180, scv: 0.5, maxReplicas: 5}]
nodeTypes: [{name: t1, speedup: 1.0, price: 1.0}, {name: t2, speedup: 0.7, price: 0.7}]
objective: {responseTime: 50ms}
"""
