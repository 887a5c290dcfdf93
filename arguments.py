"""The command lines of the tools: argparse, which also names the option or the verb that a misspelt one is near to."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that says what was meant."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and, if it is near to something right, what that is; end with status 2."""
        wrong = re.search(
            r"unrecognized arguments: .*?(--[\w-]+)|invalid choice: '([^']*)' \(choose from (.*)\)", message
        )
        if wrong:
            option, choice, choices = wrong.groups()
            known = (
                re.findall(r"--[a-z][\w-]*", self.format_help()) if option else re.findall(r"[\w-]+", choices)
            )
            for meant in difflib.get_close_matches((option or choice).lower(), known, n=1):
                message += f". Did you mean {meant}?"
        super().error(message)
