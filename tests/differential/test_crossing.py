"""Stories that cross features, beside the real servers: `make differential COMMANDS=1000000` goes on with long_run.py."""

from pathlib import Path

import pytest
from differential import long_run
from differential.anything import lines_of
from differential.crossed import Crossed
from differential.crossing import CONNECTIONS, LOOKING, THEMES, Story
from differential.pairs import PAIRS, VERSIONS
from differential.player import Difference, describe, read_story
from support.thorough import examples

# By name: the steps of a story that once differed.
KNOWN = {
    text.partition("\n")[0]: read_story(text)
    for text in (Path(__file__).parent / "stories.txt").read_text().split("\n\n")[1:]
}
# 8.6 does not check keys at EXEC (keys-at-exec).
NOT_AS_8_6 = {
    "commands of a transaction that the user may no longer run are errors",
    "EXEC fails if its last command is refused",
}
SIZE = 60
# By version of Rillet: so many stories of fixed seeds take some five seconds.
STORIES = examples(40)


@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_stories_that_cross_features_leave_the_same_as_on_the_real_server(mine, real):
    with Crossed(mine, real) as comparison:
        for seed in range(STORIES):
            run = Story(seed, VERSIONS[mine]).run(SIZE)
            first = comparison.first_difference(run)
            if first is not None and comparison.first_difference(run) is not None:
                pytest.fail(f"seed {seed}\n{describe(*comparison.shrink(run, first))}", pytrace=False)


@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_what_once_differed_is_as_on_the_real_server(mine, real):
    with Crossed(mine, real) as comparison:
        found = {
            name: comparison.first_difference(story)
            for name, story in KNOWN.items()
            if mine != "rillet-8.6" or name not in NOT_AS_8_6
        }
    wrong = [f"{name}\n{describe(KNOWN[name], each)}" for name, each in found.items() if each is not None]
    assert not wrong, "\n".join(wrong)


def test_a_seed_makes_the_same_story_again():
    assert Story(7).run(50) == Story(7).run(50) != Story(8).run(50)


@pytest.mark.parametrize("theme", THEMES)
def test_every_line_of_a_theme_is_played(theme):
    first = {line.split()[0] for line in lines_of(THEMES[theme][1])}
    played = {words[0] for seed in range(40) for _, words in Story(seed, themes=[theme]).run(SIZE)}
    assert first <= played


def test_a_difference_is_shrunk_to_few_commands_and_connections_and_can_be_played_again(tmp_path, capsys):
    run = [
        *((number % CONNECTIONS, ["SET", "k", str(number)]) for number in range(20)),
        (2, ["EVAL", "return 1\n", "0"]),
        (3, ["HSETEX", "h", "FIELDS", "1", "f", "v"]),
        (LOOKING, ["KEYS", "*"]),
    ]
    with Crossed("rillet-7.0", "redis810") as comparison:
        shrunk, found = comparison.shrink(run, comparison.first_difference(run))
    assert shrunk == [(0, ["HSETEX", "h", "FIELDS", "1", "f", "v"])]
    assert found.real.startswith("0< :1")
    story = tmp_path / "story"
    story.write_text(describe(shrunk, found))
    assert (
        long_run.main(["--replay", str(story), "--as", "rillet-7.0"]) == 0
    )  # beside 7.0 it is no difference
    assert "nothing differs" in capsys.readouterr().out


def test_a_long_run_of_stories_sums_up_what_each_theme_had(capsys):
    assert long_run.main(["--crossed", "--theme", "channels", "--commands", "120", "--as", "rillet"]) == 0
    assert "rillet beside redis810: 120 commands" in (printed := capsys.readouterr().out)
    assert "  channels: 120 commands" in printed


def test_a_story_is_read_as_it_was_described():
    run = Story(3, themes=["scripts"]).run(50)
    assert read_story(describe(run, Difference("", "", ""))) == run
