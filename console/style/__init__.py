"""What the pages of the console and of the report share: one style sheet, one chart, and the templates of what both show."""

from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
TEMPLATES: Final = Path(__file__).parent / "templates"
# From here on a message is probably at fault, not its consumers; of console, top and report
POISON_DELIVERIES: Final = 5
