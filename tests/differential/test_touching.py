"""What each command means for its keys: clocks of eviction, WATCH, tracking, changes since the last save."""

import pytest
from differential.touching import Step, play, walk, walked
from support.background import at_once
from support.servers import start_server

# Under a limit 7.0 shares no small integers, whose clock would be that of all keys with the same one.
FLAGS = ("--enable-debug-command", "yes", "--maxmemory", "64gb")
EACH = 2  # random commands of each record, besides those that are written down


@pytest.mark.parametrize("observed", [True, False], ids=["observed", "alone"])
@pytest.mark.parametrize(
    ("policy", "mine", "real"),
    [
        *((policy, "rillet", "redis810") for policy in ("allkeys-lru", "allkeys-lfu", "allkeys-lrm")),
        *((policy, "rillet-7.0", "redis7") for policy in ("allkeys-lru", "volatile-lfu")),
    ],
)
def test_each_command_touches_its_keys_as_the_real_server_does(policy, mine, real, observed):
    steps = walk(7, EACH, "7.0" if real == "redis7" else "8.10")

    def played(kind):
        with start_server(kind, *FLAGS) as server:
            return play(server, policy, steps, observed=observed)

    got, wanted = at_once(played, (mine, real))
    wrong = [
        f"{step}: {what} {here[what]}, real {there[what]}"
        for step, here, there in zip(steps, got, wanted, strict=True)
        for what in there
        if here[what] != there[what] and not _is_on_purpose(policy, step, what)
    ]
    assert not wrong, f"{len(wrong)} of {len(steps)}:\n" + "\n".join(wrong)


def _is_on_purpose(policy: str, step: Step, what: str) -> bool:
    """zremrange-by-modification."""
    return policy.endswith("lrm") and what == "clocks" and step.words[0].upper().startswith("ZREMRANGEBY")


def test_the_walk_has_every_command_that_names_keys():
    steps = walk(7, EACH)
    named = {step.words[0].lower() for step in steps}
    assert {record.name.partition("|")[0] for record in walked("8.10")} <= named
