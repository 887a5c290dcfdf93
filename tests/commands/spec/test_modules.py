"""The module that a family names for a command registers its handlers, without the rest of the room."""

import os
import subprocess
import sys

import pytest

from rillet.commands.spec.command import EVERY_MODE, batch_handler_for, handler_for
from rillet.commands.spec.versions import NEWEST, compat_with
from rillet.server.families import load_all

# Each module is imported in a fork that has imported no other: a room's modules may import each other.
_EACH_ALONE = """
import os, sys
from importlib import import_module
from rillet.server.families import load_specs
from rillet.commands.spec import command
load_specs()
modules = {}
for name, each in command.EVERY_MODE.items():
    if each.is_served and each.module:
        modules.setdefault(each.module, []).append(name)
for module, names in modules.items():
    if not os.fork():
        import_module(module)
        batched = "|".join(command._BATCH_HANDLERS)
        print(module, ",".join(name for name in names if name not in command._HANDLERS) or "-", batched or "-", flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_each_module_registers_the_handlers_of_its_commands():
    done = subprocess.run([sys.executable, "-c", _EACH_ALONE], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) > 50
    assert [line for line in lines if line[1] != "-"] == []
    load_all()
    batches = {
        name: each.module
        for name, each in EVERY_MODE.items()
        if batch_handler_for(each) is not None and each.module
    }
    assert batches
    assert [name for name, module in batches.items() if [module, "-", name] not in lines] == []


def test_a_module_names_only_commands_of_its_own_room():
    load_all()
    knows = compat_with(NEWEST).knows
    elsewhere = {
        name: handler.__module__
        for name, each in EVERY_MODE.items()
        if each.is_served
        and each.module
        and not (handler := handler_for(each, knows)).__module__.startswith(
            (each.room, "rillet.commands.spec.usage")
        )
    }
    assert elsewhere == {}


def test_a_family_names_a_module_for_each_of_its_commands_or_for_none():
    load_all()
    served = [each for each in EVERY_MODE.values() if each.is_served]
    with_modules = {each.room for each in served if each.module}
    assert with_modules
    assert [each.name for each in served if each.room in with_modules and not each.module] == []
