# SPDX-License-Identifier: MIT
"""A page that needs nothing but itself."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent


def safe(data: object) -> str:
    """Inside a script element."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def page(template: Path, **values: object) -> str:
    """The template includes style.css and the scripts from here."""
    import jinja2  # here, for these take a second to load
    import plotly.offline

    environment = jinja2.Environment(autoescape=True, loader=jinja2.FileSystemLoader([template.parent, HERE]),
                                     undefined=jinja2.StrictUndefined)
    return environment.get_template(template.name).render(plotly=plotly.offline.get_plotlyjs(), **values)
