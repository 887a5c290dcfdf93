"""The cache of scripts: by SHA1, limited for what only EVAL brought."""

import hashlib

import pytest

from rillet.commands.scripting.lua.interpreter import Interpreter
from rillet.commands.scripting.lua.script_cache import MOST_FROM_EVAL, Scripts
from rillet.protocol.errors import ReplyError


@pytest.fixture(scope="module")
def lua():
    return Interpreter({}, {}, lambda: None, lambda: 2)


def test_a_script_is_found_by_its_sha_in_any_case(lua):
    scripts = Scripts()
    script = scripts.add(b"return 1", lua, from_eval=False)
    assert script.sha == hashlib.sha1(b"return 1").hexdigest().encode()
    assert scripts.find(script.sha.upper()) is script is scripts.of_body(b"return 1")
    assert scripts.find(b"0" * 40) is None


def test_what_does_not_compile_is_not_kept(lua):
    scripts = Scripts()
    with pytest.raises(ReplyError) as caught:
        scripts.add(b"x y", lua, from_eval=True)
    assert caught.value.text.startswith(b"ERR Error compiling script (new function): user_script:1:")
    assert len(scripts) == 0


def test_the_longest_unused_script_of_eval_goes_first(lua):
    scripts = Scripts()
    kept = scripts.add(b"return 'loaded'", lua, from_eval=False)
    turned = scripts.add(b"return 'both'", lua, from_eval=True)
    scripts.add(b"return 'both'", lua, from_eval=False)
    first = scripts.add(b"return 'first'", lua, from_eval=True)
    second = scripts.add(b"return 'second'", lua, from_eval=True)
    for number in range(MOST_FROM_EVAL - 2):
        scripts.add(b"return %d" % number, lua, from_eval=True)
    assert scripts.evicted == 0
    assert scripts.of_body(first.body) is first  # which is a use
    scripts.add(b"return 'one more'", lua, from_eval=True)
    assert scripts.evicted == 1
    assert scripts.find(second.sha) is None
    assert scripts.of_body(second.body) is None
    assert all(scripts.find(script.sha) for script in (kept, turned, first))
    assert len(scripts) == MOST_FROM_EVAL + 2


def test_flags_stand_in_the_first_line(lua):
    scripts = Scripts()
    assert scripts.add(b"return 1", lua, from_eval=True).flags is None
    assert scripts.add(b"#!lua\nreturn 1", lua, from_eval=True).flags == frozenset()
    found = scripts.add(b"#!lua flags=no-writes,allow-stale\nreturn 1", lua, from_eval=True).flags
    assert found == {"no-writes", "allow-stale"}
