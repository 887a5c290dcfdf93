"""The pages name only what exists: every path in back-quotes, every link, every heading that is linked to."""

import importlib.util
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from support.servers import start_server
from support.tool import run_program

from rillet.storage.collections.base import Collection

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md")),
]  # fmt: skip
FOLDERS = (
    "benchmarks", "commands", "console", "docs", "pipeline", "protocol", "server", "storage", "style", "tests",
)  # fmt: skip

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# What a page leaves open, or what a run writes: `commands/<family>/specs.py`, `tests/*.script`, `day=…`.
OPEN = re.compile(r"[<>*{}=…]")


def paths_in(text: str) -> list[str]:
    """Return the paths of the repository that a page names in back-quotes."""
    words = [word.partition("::")[0].rstrip("/") for word in QUOTED.findall(FENCED.sub("", text))]
    return [word for word in words if word.split("/")[0] in FOLDERS and "/" in word and not OPEN.search(word)]


def anchors_of(path: Path) -> set[str]:
    headings = HEADING.findall(FENCED.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_paths(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [f"{page.relative_to(ROOT)}: {path}" for path in paths_in(text) if not (ROOT / path).exists()]


GENERATED = {"directives", "testing", "spark-options"}  # by docs/_site, when the site is built


def dead_links(page: Path) -> list[str]:
    """Links of a page to no file, or to no heading of one."""
    dead = []
    for link in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if target.is_relative_to(ROOT / "docs/reference") and target.stem in GENERATED:
            continue
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors_of(target))):
            dead.append(f"{page.relative_to(ROOT)}: {link}")
    return dead


def test_every_path_that_a_page_names_exists():
    assert [missing for page in PAGES for missing in missing_paths(page)] == []


def test_every_link_of_a_page_leads_somewhere():
    assert [dead for page in PAGES for dead in dead_links(page)] == []


def test_a_path_that_does_not_exist_is_found():
    text = (
        "`server/net/connection.py`, `commands/`, `storage/gone.py`, `commands/<family>/specs.py`, `x.py`\n"
    )
    text += "```sh\nls `docs/fenced.md`\n```\n`tests/support/`"
    assert paths_in(text) == ["server/net/connection.py", "storage/gone.py", "tests/support"]


def test_every_room_stands_in_the_table_of_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    packages = {
        path.parent.relative_to(ROOT).as_posix()
        for folder in ("commands", "storage", "server", "pipeline")
        for path in (ROOT / folder).glob("*/__init__.py")
    }
    assert packages <= {word.rstrip("/") for word in QUOTED.findall(text)}


def test_the_script_of_the_page_on_commands_is_the_real_one():
    page = (ROOT / "docs" / "adding-a-command.md").read_text(encoding="utf-8")
    [lines] = re.findall(r"^```\n(--- xack\n.*?)```", page, re.MULTILINE | re.DOTALL)
    assert lines in (ROOT / "tests/differential/scripts/xack_xpending.script").read_text(encoding="utf-8")


PEEK = """
import redis

from rillet.testing import Server

with Server() as server, redis.Redis(port=server.port) as client:
    for words in ("XADD s 1-1 f v", "XGROUP CREATE s g 0", "XPEEK s g", "XREADGROUP GROUP g c STREAMS s >", "XPEEK s g"):
        print(client.execute_command(*words.split()))
"""


def test_a_command_that_is_added_as_the_page_says_is_served_and_nothing_else_has_to_change(tmp_path):
    page = (ROOT / "docs" / "adding-a-command.md").read_text(encoding="utf-8")
    record, handler = re.findall(r"^```python\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    copy = tmp_path / "rillet"
    for room in ("commands", "docs", "protocol", "server", "storage", "testing", "tests"):
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    for file in ("__init__.py", "pyproject.toml", "pytest_plugin.py", "README.md"):
        shutil.copy(ROOT / file, copy / file)
    (copy / ".peers").symlink_to(ROOT / ".peers")
    specs = copy / "commands/streams/specs.py"
    before, mark, after = specs.read_text(encoding="utf-8").rpartition("# fmt: on")
    specs.write_text(f"{before}{record.removeprefix('# fmt: off')}\n{mark}{after}", encoding="utf-8")
    (copy / "commands/streams/xpeek.py").write_text(handler, encoding="utf-8")

    def in_copy(*words):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return run_program(sys.executable, *words, seconds=600, cwd=copy, env=environment)

    peeked = in_copy("-c", PEEK)
    assert peeked.stdout.splitlines()[2::2] == ["[[b'1-1', [b'f', b'v']]]", "[]"], peeked.stderr
    assert in_copy("docs/_site/commands_list.py", "docs/commands.md").returncode == 0
    names = "xpeek or lists_the or shows_the_argument or families_are_missing or page_of_commands"
    done = in_copy("-m", "pytest", "-q", "tests/commands/spec", "tests/test_commands_list.py", "-k", names)
    assert done.returncode == 0, done.stdout


def test_the_page_on_data_types_shows_the_real_files():
    page = (ROOT / "docs" / "adding-a-data-type.md").read_text(encoding="utf-8")
    shown = 0
    for section in page.split("\n## "):
        file = next((path for path in paths_in(section) if path.startswith("storage/")), "")
        for code in re.findall(r"^```python\n(.*?)```", section, re.MULTILINE | re.DOTALL):
            assert code in (ROOT / file).read_text(encoding="utf-8"), file
            shown += 1
    assert shown == 2
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == Collection.__abstractmethods__


# Which test runs or compares the blocks of a page that are not text: it names the page or its folder.
SHOWN = {
    "README.md": "tests/test_readme.py",
    "docs/adding-a-command.md": "tests/test_docs.py",
    "docs/adding-a-data-type.md": "tests/test_docs.py",
    "docs/console.md": "tests/console/test_commands.py",
    "docs/how-to/containers.md": "tests/test_image.py",
    "docs/how-to/declarative-pipelines.md": "tests/pipeline/test_declarative_pipelines.py",
    "docs/how-to/frameworks.md": "tests/frameworks/test_how_to.py",
    "docs/how-to/grafana.md": "tests/console/test_exporter.py",
    "docs/how-to/spark-cluster.md": "tests/pipeline/test_cluster.py",
    "docs/index.md": "tests/test_site.py",
    "docs/running.md": "tests/test_readme.py",
    "docs/spark.md": "tests/pipeline/spark/test_tutorial.py",
    "docs/testing/": "tests/testing/test_pages.py",
    "docs/tutorial.md": "tests/test_site.py",
}


def test_every_block_of_a_page_is_run_or_is_plain_text():
    """Plain text is what cannot run here (Docker, Kubernetes, two machines), and the page says so, or what is printed."""
    unproven = []
    for page in PAGES:
        path = page.relative_to(ROOT).as_posix()
        if not re.search(r"^```(?!text$)\w", page.read_text(encoding="utf-8"), re.MULTILINE):
            continue
        tests = [(place, test) for place, test in SHOWN.items() if path.startswith(place)]
        for place, test in tests:
            named = "testing" if place == "docs/testing/" else page.name
            if named not in (ROOT / test).read_text(encoding="utf-8"):
                unproven.append(f"{path}: {test} does not name it")
        if len(tests) != 1:
            unproven.append(f"{path}: {len(tests)} rows of SHOWN")
    assert unproven == []


def test_the_commands_that_the_page_on_commands_types_work():
    page = (ROOT / "docs" / "adding-a-command.md").read_text(encoding="utf-8")
    typed = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)).splitlines()
    with start_server("rillet") as server:
        for line in typed:
            program, *words = shlex.split(line)
            if program == "redis-cli":
                done = run(program, "-p", str(server.port), *words)
                assert (done.returncode, "ERR" in done.stdout) == (0, False), line
            elif program == "python":
                assert (ROOT / words[0]).exists() or importlib.util.find_spec(words[1]), line
            elif program == "pytest":
                assert run(sys.executable, "-m", "pytest", "-q", "--collect-only", *words).returncode == 0, (
                    line
                )
            else:
                assert (program, words) == ("make", ["lint"])


def run(*words):
    return run_program(*words, cwd=ROOT)
