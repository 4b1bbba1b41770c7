"""Counters and gauges of StreamApps, and how they are written on the page of metrics.

A thousand StreamApps have a hundred thousand series. As objects of `prometheus_client` they would
take 50 KiB of each StreamApp, and seconds of processor time whenever the page is read. So a series
is a number in a dictionary here, and a line of the page is one formatting.

The page is written in another thread than the one that counts: it takes copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from isal import isal_zlib

from weir_operator.kubernetes.api.objects import Key

APP = ("namespace", "app")
"""Labels that all series of StreamApps have."""


class AppSeries:
    """All series of one name, by StreamApp and further labels."""

    def __init__(self, name: str, kind: str, text: str, labels: tuple[str, ...] = ()) -> None:
        """Create it without series.

        Args:
            name: As it stands on the page.
            kind: `counter` or `gauge`.
            text: What it says.
            labels: Names of the labels besides those of the StreamApp.
        """
        self.name = name
        self._kind = kind
        self._text = text
        self._labels = labels
        self._values: dict[Key, dict[tuple[str, ...], float]] = {}

    def set(self, key: Key, value: float, *labels: str) -> None:
        """Set the value of a series."""
        self._values.setdefault(key, {})[labels] = float(value)

    def add(self, key: Key, *labels: str, amount: float = 1.0) -> None:
        """Count, from 0 where there is no such series yet."""
        values = self._values.setdefault(key, {})
        values[labels] = values.get(labels, 0.0) + amount

    def of(self, key: Key) -> Mapping[tuple[str, ...], float]:
        """Return the values of a StreamApp by their further labels."""
        return self._values.get(key, {})

    def forget(self, key: Key) -> None:
        """Remove the series of a StreamApp that is gone."""
        self._values.pop(key, None)

    def lines(self) -> Iterator[str]:
        """Yield what the page says of it, some lines at a time."""
        yield head(self.name, self._kind, self._text)
        line = self._line()
        for key, values in [*self._values.items()]:
            app = (escape(key.namespace), escape(key.name))
            yield "".join(
                line.format(*app, *map(escape, labels), number(value))
                for labels, value in [*values.items()]
            )

    def _line(self) -> str:
        """Return the format of a line, whose labels are in order of their names."""
        names = (*APP, *self._labels)
        labels = sorted(f'{name}="{{{place}}}"' for place, name in enumerate(names))
        return f"{self.name}{{{{{','.join(labels)}}}}} {{{len(names)}}}\n"


def head(name: str, kind: str, text: str) -> str:
    """Return the lines before the series of a name."""
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


_GZIP = 16 + isal_zlib.MAX_WBITS
"""How zlib is told to write gzip's header."""


def write_page(
    parts: Iterable[Iterator[str]], page: bytes = b"", *, compressed: bool = False
) -> bytearray:
    """Return a page with all lines after those that it has: they are never all in memory twice.

    Args:
        parts: The lines.
        page: What stands before them.
        compressed: Return it as gzip does. It is then never whole in memory: a thousand StreamApps
            have 10 MB of lines, which become less than one.
    """
    packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP) if compressed else None
    written = bytearray(page if packer is None else packer.compress(page))
    for lines in parts:
        for each in lines:
            text = each.encode()
            written += text if packer is None else packer.compress(text)
    if packer is not None:
        written += packer.flush()
    return written


def escape(text: str) -> str:
    """Return the value of a label as a page has it."""
    if "\\" in text or '"' in text or "\n" in text:
        return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return text


def number(value: float) -> str:
    """Return a number as a page has it: Python's own words, but for what is not finite."""
    if value - value == 0:
        return repr(value)
    return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
