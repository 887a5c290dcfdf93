"""`python run.py MODULE [FUNCTION]`: one driver's `main` (or another function of it), then the word that it got there."""

import asyncio
import importlib
import sys

from checks import END

# By import and not as a script: the frameworks write the names of modules into their messages.
module = importlib.import_module(sys.argv[1])
result = getattr(module, sys.argv[2] if sys.argv[2:] else "main")()
if asyncio.iscoroutine(result):
    asyncio.run(result)
sys.stdout.write(f"{END}\n")
