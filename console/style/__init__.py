"""Shared by the pages of the console and the report: a style sheet, a chart, and templates."""

from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
TEMPLATES: Final = Path(__file__).parent / "templates"
# From this delivery count on the message is probably at fault, not its consumers; used by console, top and report
# for display only. The pipeline's option maxDeliveries (pipeline/group/options.py) decides what becomes a dead letter.
POISON_DELIVERIES: Final = 5
