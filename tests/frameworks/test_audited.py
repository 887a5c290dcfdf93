"""What `rillet audit` says of libraries of consumers: the rows of docs/testing/frameworks-under-audit.md.

With RILLET_PAGE=1 a run writes what it found into its row.
"""

import fcntl
import os
from pathlib import Path

import pytest
from support.programs.frameworks import node_environment, python_environment

from rillet.testing.auditing.bench import Plan
from rillet.testing.auditing.catalogue import PROMISES
from rillet.testing.auditing.messages import Messages
from rillet.testing.auditing.results import BROKEN, KEPT, NOT_TRIED
from rillet.testing.auditing.running import Audit

PAGE = Path(__file__).parents[2] / "docs" / "testing" / "frameworks-under-audit.md"
PROGRAMS = PAGE.parent / "audited"
_SECONDS = 20  # longer than the timers of each


def _python(environment, name):
    return lambda kind: (
        [str(python_environment(environment) / "bin/python"), str(PROGRAMS / name), kind],
        {},
    )


def _node(environment, name):
    return lambda kind: (
        ["node", str(PROGRAMS / name), kind],
        {"NODE_PATH": str(node_environment(environment) / "node_modules")},
    )


# How each is started, what a message is, and where the work is seen if it is not the first write.
LIBRARIES = {
    "FastStream": (
        _python("light", "faststream_worker.py"),
        {"__data__": '{"data":"{n}","headers":{"content-type":"application/json"}}'},
        None,
    ),
    "Docket": (
        _python("docket", "docket_worker.py"),
        {
            "key": "{n}",
            "when": "2026-01-01T00:00:00+00:00",
            "function": "work",
            "args": b"\x80\x05).".decode(errors="surrogateescape"),  # pickled: ()
            "kwargs": b"\x80\x05}.".decode(errors="surrogateescape"),  # {}
            "attempt": "1",
            "generation": "0",
        },
        "done",
    ),
    "taskiq-redis": (
        _python("light", "taskiq_worker.py"),
        {
            "data": '{"task_id":"t{n}","task_name":"work","labels":{},"labels_types":{},"args":[{n}],"kwargs":{}}'
        },
        "done",
    ),
    "walrus": (_python("light", "walrus_worker.py"), {"n": "{n}"}, None),
    "redis-stream-queue": (
        _python("audited", "redis_stream_queue_worker.py"),
        {"data": '{"n": {n}}'},
        "done",
    ),
    "redis-streams": (_python("audited", "redis_streams_worker.py"), {"n": "{n}"}, None),
    "redis-streams-broker": (_node("redis_streams_broker", "redis-streams-broker.js"), {"n": "{n}"}, None),
}


def _rows():
    """The cells of the table, by library and settings."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
    found = {}
    for line in lines:
        library, settings, *verdicts = (each.strip() for each in line.strip("|").split("|"))
        found[library[1:].partition("]")[0].split()[0], settings] = (line, verdicts)
    return found


@pytest.mark.frameworks
@pytest.mark.parametrize(("library", "settings"), list(_rows()))
def test_the_page_says_what_an_audit_says(library, settings):
    launch, message, done = LIBRARIES[library]
    command, environment = launch("most" if settings == "keeps most" else "begin")
    plan = Plan(
        command=command, environment=environment, messages=Messages([message]), done=done, timeout=_SECONDS
    )
    results = Audit(plan, 2).run(PROMISES)
    by_verdict = {each: [one for one in results if one.result == each] for each in (KEPT, BROKEN, NOT_TRIED)}
    cells = [
        str(len(by_verdict[KEPT])),
        *(", ".join(one.name for one in by_verdict[each]) for each in (BROKEN, NOT_TRIED)),
    ]
    if os.environ.get("RILLET_PAGE"):
        _write(library, settings, cells)
    assert cells == _rows()[library, settings][1], {
        one.name: one.what for each in (BROKEN, NOT_TRIED) for one in by_verdict[each]
    }


def _write(library, settings, cells):
    with PAGE.open("r+", encoding="utf-8") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        line = _rows()[library, settings][0]
        text = page.read()
        begin = "|".join(line.split("|")[:3])
        page.seek(0)
        page.truncate()
        page.write(text.replace(line, f"{begin}| {' | '.join(cells)} |"))
