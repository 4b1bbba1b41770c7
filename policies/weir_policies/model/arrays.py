"""The array types of the model. In shapes: `b` rows, `t` node types, `d` deployments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Real numbers; the docstring beside it names the shape."""
Counts = NDArray[np.int64]
"""Replicas per node type, one deployment per row."""
