"""Reports of an audit: for a terminal, as JSON and JUnit, and for GitHub."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree as ET  # only written, never read

from .bench import Plan
from .results import BROKEN, KEPT, NOT_TRIED, Result

_WIDTH: Final = 80
_ORDER: Final = (BROKEN, NOT_TRIED, KEPT)
_COLOURS: Final = {BROKEN: "31", NOT_TRIED: "33", KEPT: "32"}
_NAME: Final = 17
_VERDICT: Final = 10
_SHOWN: Final = 6  # lines of evidence


def table(results: Sequence[Result], *, colours: bool = False) -> str:
    """Return the results as text for a terminal in 80 columns, broken promises first; ``colours`` adds ANSI codes."""
    lines = []
    for each in sorted(results, key=lambda result: _ORDER.index(result.result)):
        head = f"{each.result:{_VERDICT}}"
        if colours:
            head = f"\x1b[{_COLOURS[each.result]}m{head}\x1b[0m"
        wrapped = textwrap.wrap(each.what, _WIDTH - _NAME - _VERDICT - 1, break_on_hyphens=False)
        lines.append(f"{head} {each.name:{_NAME}}{wrapped[0] if wrapped else ''}".rstrip())
        lines += [" " * (_NAME + _VERDICT + 1) + line for line in wrapped[1:]]
        if each.result == BROKEN:
            lines += [f"    {_cut(line)}" for line in each.evidence[-_SHOWN:]]
    return "\n".join(lines)


def _cut(line: str) -> str:
    width = _WIDTH - 4
    return line if len(line) <= width else line[: width - 1] + "…"


def summary(results: Sequence[Result], plan: Plan) -> str:
    """Return one line of an audit's results: the numbers of broken, untried and kept promises."""
    counts = {kind: sum(each.result == kind for each in results) for kind in _ORDER}
    said = [f"{count} {kind}" for kind, count in counts.items() if count]
    group = f", group {plan.group}" if plan.group else ""
    return f"stream {plan.stream}{group}: {', '.join(said)}"


def as_json(results: Sequence[Result], plan: Plan) -> str:
    """Return the results of an audit as JSON."""
    found = {"stream": plan.stream, "group": plan.group, "promises": [each.as_json() for each in results]}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def as_junit(results: Sequence[Result], plan: Plan) -> str:
    """Return the results as JUnit XML: a broken promise is a failure, and an untried one is skipped."""
    suite = ET.Element(
        "testsuite",
        name="rillet audit",
        tests=str(len(results)),
        failures=str(sum(each.result == BROKEN for each in results)),
        errors="0",
        skipped=str(sum(each.result == NOT_TRIED for each in results)),
        time=f"{sum(each.seconds for each in results):.3f}",
    )
    for each in results:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"{plan.stream}.{plan.group}",
            name=each.name,
            time=f"{each.seconds:.3f}",
        )
        if each.result == BROKEN:
            ET.SubElement(case, "failure", message=_plain(each.what)).text = _plain("\n".join(each.evidence))
        elif each.result == NOT_TRIED:
            ET.SubElement(case, "skipped", message=_plain(each.what))
    root = ET.Element("testsuites")
    root.append(suite)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def as_annotations(results: Sequence[Result]) -> str:
    """Return GitHub workflow commands: an error for each broken promise, and a notice for each untried one."""
    kinds = {BROKEN: "error", NOT_TRIED: "notice"}
    return "\n".join(
        f"::{kinds[each.result]} title=rillet audit: {each.name} {each.result}::{_escaped(each.what)}"
        for each in results
        if each.result in kinds
    )


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _plain(text: str) -> str:
    """Replace the characters that XML cannot contain."""
    return "".join(
        each if each in "\t\n" or each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text
    )
