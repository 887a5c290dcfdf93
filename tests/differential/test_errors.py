"""An error changes nothing: of every script each command that is answered by an error, on Rillet of each version."""

import pytest
from differential.judge import FILES
from differential.pairs import PAIRS
from support.aof import flags_for
from support.script import Player
from support.servers import on_demand, start_server
from support.wire import encode_command

# What ran before the error stays: the commands of a transaction, and those of a script.
IN_PARTS = {"EXEC", "EVAL", "EVALSHA", "FCALL"}
LOOK = encode_command("DEBUG", "DIGEST") + encode_command("INFO", "persistence")
SHOWN = (b"rdb_changes_since_last_save", b"aof_current_size")


class Watcher(Player):
    """Plays cases, and looks at data, changes and the append-only file around each command that is answered by an error.

    Attributes:
        wrong: the steps whose error changed something.
    """

    def __init__(self, port, protocol):
        super().__init__(port, protocol)
        self.wrong = []

    def look(self):
        """The digest of all data, how many changes there were, and the length of the file."""
        self.control.send_raw(LOOK)
        digest, info = self.control.read().value, self.control.read().value
        return digest, [line for line in info.split(b"\r\n") if line.startswith(SHOWN)]

    def take(self, step):
        watched = step.verb == ":" and step.rest.split()[0].upper() not in IN_PARTS
        before = self.look() if watched else None
        for reply in super().take(step):
            if watched and getattr(reply, "kind", "") == "-" and self.look() != before:
                self.wrong.append(f"line {step.line}: {step.rest} -> {reply}")
            yield reply


@pytest.fixture(scope="module")
def logging():
    """`logging(kind)` is a server of that kind with an append-only file."""
    with on_demand(lambda kind: start_server(kind, *flags_for(kind), "--enable-debug-command", "yes")) as get:
        yield get


@pytest.mark.parametrize("kind", [mine for mine, _ in PAIRS])
@pytest.mark.parametrize("name", FILES)
def test_an_error_changes_nothing(name, kind, logging):
    wrong = []
    for case in FILES[name]:
        player = Watcher(logging(kind).port, case.protocols[0])
        try:
            list(player.play(case.steps))
        finally:
            player.close()
        wrong += player.wrong
    assert not wrong
