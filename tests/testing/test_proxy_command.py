"""`rillet proxy`, as a program."""

import contextlib
import signal

import pytest
import redis
from support.ports import free_port
from support.proxies import port_when_ready, start_proxy

import rillet.testing
from rillet.testing.proxy_command import words_of


@pytest.fixture(scope="module")
def real():
    with rillet.testing.Server(requirepass="secret") as server:
        yield server


@contextlib.contextmanager
def running(*words: str):
    """The program once it is ready, a client through it, and what it has printed at the end."""
    process = start_proxy(*words, "--port", "0")
    ended: list[str] = []
    try:
        with redis.Redis.from_url(f"redis://:secret@127.0.0.1:{port_when_ready(process)}") as client:
            yield client, ended
    finally:
        process.send_signal(signal.SIGTERM)
        ended += process.communicate(timeout=60)
    assert process.returncode == 0, ended


def test_faults_of_the_command_line_and_of_debug_fault_and_a_file_of_what_passed(real, tmp_path):
    file = tmp_path / "seen.txt"
    faults = ["--fault", "XACK close=after nth=2", "--fault", "XGROUP CREATE error=OOM"]
    faults += ["--fault", "NOPE.X silence"]
    with running(real.url, *faults, "--record", str(file)) as (client, ended):
        client.xadd("s", {"a": 1}, id="1-1")
        with pytest.raises(redis.OutOfMemoryError):
            client.xgroup_create("s", "g")
        client.execute_command(
            "DEBUG", "FAULT", "CLEAR", client.execute_command("DEBUG", "FAULT", "LIST")[1][0]
        )
        client.xgroup_create("s", "g")
        assert client.xack("s", "g", "1-1") == 0
        with pytest.raises(redis.ConnectionError):
            client.xack("s", "g", "1-1")
        client.execute_command("DEBUG", "FAULT", "ADD", "COMMAND", "GET", "ERROR", "BUSY")
        with pytest.raises(redis.ResponseError, match="BUSY"):
            client.get("k")
    assert ended == ["", "the fault hit nothing: COMMAND NOPE.X SILENCE\n"]
    lines = file.read_text()
    assert "XACK s g 1-1 -> 0\n" in lines
    assert "XACK s g 1-1 -> 0 (fault " in lines
    assert "secret" not in lines
    real.reset()


def test_a_file_that_cannot_be_written_ends_the_recording_and_no_client(real):
    process = start_proxy(real.url, "--port", "0", "--record", "/dev/full")
    try:
        with redis.Redis.from_url(
            f"redis://:secret@127.0.0.1:{port_when_ready(process)}", retry=None
        ) as client:
            assert client.incr("recorded") == 1
            assert client.incr("recorded") == 2
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert errors.count("No more is recorded: [Errno 28] No space left on device") == 1
    assert process.returncode == 1
    real.reset()


def test_without_debug_the_server_answers_debug_fault(real):
    with running(real.url, "--no-debug") as (client, ended):
        number = client.execute_command("DEBUG", "FAULT", "ADD", "COMMAND", "GET", "ERROR", "BUSY")
        assert [fault.id for fault in real.faults] == [number]
    assert ended == ["", ""]
    real.reset()


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["http://x"], 2, "a URL begins with redis://"),
        (["redis://x", "--fault", "XACK"], 2, "A fault needs ERROR, CLOSE"),
        (["redis://x", "--fault", "XACK closed=after"], 2, "Unknown option 'CLOSED'"),
        (["{url}", "--fault", "XAKC close=after"], 1, "There is no command 'xakc'"),
        (["{url}", "--fault", "disk=append"], 1, "A proxy has no DISK"),
        (["{url}", "--record", "/no/such/folder/file"], 1, "No such file"),
        (["redis://127.0.0.1:{free}"], 1, "cannot be reached"),
        (["--help"], 0, ""),
    ],
)
def test_what_it_does_not_understand_is_named(real, words, status, text):
    process = start_proxy(
        *(word.format(url=real.url, free=free_port()) for word in words),
        *([] if "--help" in words else ["--port", "0"]),
    )
    out, problems = process.communicate(timeout=60)
    assert process.returncode == status, out + problems
    assert text in problems


def test_a_fault_is_written_as_a_command_and_options():
    assert words_of("XACK close=after nth=3") == [b"COMMAND", b"XACK", b"CLOSE", b"after", b"NTH", b"3"]
    error = [b"COMMAND", b"xgroup create", b"ERROR", b"CODE a text"]
    assert words_of("xgroup create 'error=CODE a text'") == error
    assert words_of("slow=10,100 silence reply_bytes=3") == b"SLOW 10 100 SILENCE REPLY-BYTES 3".split()
