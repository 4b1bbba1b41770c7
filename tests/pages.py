"""Reads the charts of a page that Weir wrote."""

import json
import re


def charts_of(path):
    """Return the figures of a page's charts by their titles."""
    text = path.read_text(encoding="utf-8")
    titles = re.findall(r'<div class="plot" role="img" aria-label="([^"]*)"', text)
    figures = re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL)
    return dict(zip(titles, map(json.loads, figures), strict=True))
