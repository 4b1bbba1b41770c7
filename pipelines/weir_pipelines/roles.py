"""Sums over the series of one role, of rows in which the series of all roles are mixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_pipelines.groups import Bools, Groups, Words, group_rows
from weir_policies.model.arrays import Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Roles:
    """What the series of some groups are for, and where anything is known of them."""

    metric: Words
    """Role of each series, shape `(s,)`."""
    present: Bools
    """Shape `(s, minutes)`."""
    groups: Groups

    def total(self, role: str, values: Floats) -> Floats:
        """Sum values over the series of one role.

        Args:
            role: Which one.
            values: Of each series, shape `(s, minutes)`.

        Returns:
            A row per group, NaN where none of its series has the role.
        """
        rows = np.flatnonzero(self.metric == role)
        totals = np.full((self.groups.starts.size, values.shape[1]), np.nan)
        if rows.size:
            within = self.groups.numbers[rows]
            own = group_rows(within)
            known = np.where(self.present[rows], values[rows], np.nan)
            totals[within[own.starts]] = own.total(known)
        return totals

    def seen(self, roles: tuple[str, ...], flags: Bools) -> Bools:
        """Tell where a series of some roles has a flag, a row per group."""
        return self.groups.any(flags & np.isin(self.metric, roles)[:, None])
