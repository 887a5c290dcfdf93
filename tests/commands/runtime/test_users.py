"""Users: how their rules add up and are formatted (as in Redis 7.2 and newer), and the check of a command."""

import contextlib

import hypothesis.strategies as st
import pytest
from hypothesis import given

from rillet.commands.runtime.denials import Reason
from rillet.commands.runtime.users import RuleError, Selector, User, hash_of, joined
from rillet.commands.spec.command import REGISTRY
from rillet.protocol import globs
from rillet.server.families import load_all

load_all()


def user(*rules: str) -> User:
    found = User(b"bob")
    for rule in rules:
        found.apply(rule.encode())
    return found


def denial(who: User, *words: str):
    argv = [word.encode() for word in words]
    name = words[0].lower()
    command = REGISTRY.get(f"{name}|{words[1].lower()}" if len(words) > 1 else name) or REGISTRY[name]
    found = who.check(command, argv)
    return None if found is None else (found.reason, found.subject)


@pytest.mark.parametrize(
    ("rules", "shown"),
    [
        ("", "off sanitize-payload resetchannels -@all"),
        ("~a ~a %R~b %W~c %RW~d &ch", "off sanitize-payload ~a %R~b %W~c ~d resetchannels &ch -@all"),
        ("%R~a %W~a", "off sanitize-payload ~a resetchannels -@all"),
        ("~a allkeys allchannels", "off sanitize-payload ~* &* -@all"),
        ("-client|id +@read -@all +@read +@write -@read", "off sanitize-payload resetchannels -@all +@write -@read"),
        (
            "+client +client|id -config|set +CONFIG|GET",
            "off sanitize-payload resetchannels -@all +client +client|id -config|set +config|get",
        ),
        ("+client|id +client|list -client", "off sanitize-payload resetchannels -@all -client"),
        ("+@all -eval -get +get", "off sanitize-payload resetchannels +@all -eval +get"),
        ("+select|0 +select|1", "off sanitize-payload resetchannels -@all +select|0 +select|1"),
        (
            "(+get ~k*) (%R~z &c +@write)",
            (
                "off sanitize-payload resetchannels -@all (~k* resetchannels -@all +get) "
                "(%R~z resetchannels &c -@all +@write)"
            ),
        ),
        ("on >p nopass", "on nopass sanitize-payload resetchannels -@all"),
        ("on nopass resetpass skip-sanitize-payload", "on skip-sanitize-payload resetchannels -@all"),
        ("on >a >a", f"on sanitize-payload #{hash_of(b'a').decode()} resetchannels -@all"),
        ("on >a ~* +@all (+get) reset", "off sanitize-payload resetchannels -@all"),
    ],
)  # fmt: skip
def test_rules_are_formatted_as_in_redis(rules, shown):
    found = user(*(rule.decode() for rule in joined(rules.encode().split())))
    assert found.describe().decode() == shown
    again = user(*(rule.decode() for rule in joined(shown.encode().split())))
    assert again.describe().decode() == shown


RULES = st.sampled_from([
    *"+@all -@all +@read -@write +get -get +client -client +client|id -client|id +select|0 -select ~a* %R~b %W~b".split(),
    *"~* resetkeys &c &* resetchannels".split(),
])  # fmt: skip


@given(st.lists(RULES, max_size=12))
def test_the_formatted_rules_make_the_same_user(rules):
    first = user()
    for rule in rules:
        try:
            first.apply(rule.encode())
        except RuleError:
            assert rule[0] in "~%&"
    second = user(*first.describe().decode().split())
    for mine, theirs in zip(first.selectors, second.selectors, strict=True):
        assert (mine.commands, mine.patterns, mine.channels) == (
            theirs.commands,
            theirs.patterns,
            theirs.channels,
        )
        assert mine.first_words == theirs.first_words
    assert first.is_unlimited == second.is_unlimited


def test_a_user_with_one_command_less_is_limited():
    assert not user("+@all", "~*", "&*", "-get").is_unlimited
    assert user("+@all", "~*", "&*", "-get", "+get").is_unlimited


def test_a_copy_is_like_its_user_until_one_of_them_changes():
    who = User(b"me")
    who.apply(b"+@read")
    twin = who.copy()
    assert twin.is_like(who)
    twin.apply(b"-get")
    assert not twin.is_like(who)
    twin = who.copy()
    twin.apply(b"(~k +set)")
    assert not twin.is_like(who)


def test_a_copy_changes_alone():
    who = user("on", ">a", "+get", "~a", "&c")
    twin = who.copy()
    for rule in (b"off", b">b", b"+set", b"~b", b"&d", b"(+get)"):
        twin.apply(rule)
    assert who.describe() == user("on", ">a", "+get", "~a", "&c").describe()


RULES = """+@all -@all +@read -@read +@connection -@connection +@dangerous -@admin +get -get +config -config +config|get
-config|get +select|0 +select|1 +select -select +acl|whoami -acl ~a ~b* &c allchannels resetchannels allkeys"""


@given(st.lists(st.sampled_from(RULES.split()), max_size=10))
def test_equal_rules_mean_equal_commands_so_that_these_need_no_comparison(words):
    applied = Selector()
    for word in words:
        with contextlib.suppress(RuleError):  # of one that cannot follow another
            applied.apply(word.encode())
    again = Selector()
    for rule in applied.rules:
        again.apply(rule)
    assert (again.commands, again.first_words) == (applied.commands, applied.first_words)


def test_patterns_of_a_user_are_compiled_once(monkeypatch):
    """More patterns than any fixed number: one more must not make each command compile all of them."""
    globs.matcher.cache_clear()
    compiled = []
    original = globs._compile
    monkeypatch.setattr(globs, "_compile", lambda *words: compiled.append(words) or original(*words))
    many = user(
        "on",
        "+@all",
        *(f"~*a{number}*b" for number in range(600)),
        *(f"&*c{number}*" for number in range(600)),
    )
    for _ in range(3):
        assert denial(many, "GET", "nothing") == (Reason.KEY, b"nothing")
        assert denial(many, "PUBLISH", "nothing", "x") == (Reason.CHANNEL, b"nothing")
    assert len(compiled) == 1200
    many.apply(b"resetkeys")
    many.apply(b"~*a1*b")
    assert denial(many, "GET", "a1b") is None
    assert denial(many, "GET", "a2b") == (Reason.KEY, b"a2b")
    assert len(many.selectors[0]._matchers) == 1
