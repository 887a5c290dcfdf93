"""SENTINEL's subcommands that change the monitored masters and their settings."""

from __future__ import annotations

from typing import Final

from ....commands.runtime.arguments import parse_integer
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....protocol import replies
from ....protocol.errors import ReplyError, shown
from ....protocol.globs import matcher
from ...config.sentinel_settings import is_address
from . import specs
from .queries import named_master
from .shared import state_of

_LEVELS: Final = (b"debug", b"verbose", b"notice", b"warning", b"nothing")
_SCRIPTS: Final = (b"notification-script", b"client-reconfig-script")
_SCRIPTS_DENIED: Final = (
    b"ERR Reconfiguration of scripts path is denied for security reasons. Check the deny-scripts-reconfig "
    b"configuration directive in your Sentinel configuration"
)


@handles(specs.FAILOVER)
def failover(client: Client, args: list[bytes]) -> bytes:
    """Start a failover of a master, whether it is down or not; reply OK at once. Events show the progress."""
    sentinel = state_of(client.server)
    master = named_master(client, args[2])
    if master.failover_state != "none":
        raise ReplyError(b"INPROG Failover already in progress")
    if not sentinel.monitor.candidates(master):
        raise ReplyError(b"NOGOODSLAVE No suitable replica to promote")
    master.forced = True
    sentinel.monitor.fail_over(master)
    return replies.OK


@handles(specs.RESET)
def reset(client: Client, args: list[bytes]) -> bytes:
    """Forget and rediscover the replicas of the masters whose name matches a glob; reply with the number of masters."""
    sentinel = state_of(client.server)
    fits = matcher(args[2])
    found = [master for name, master in sentinel.masters.items() if fits(name)]
    for master in found:
        sentinel.monitor.reset(master)
    return replies.integer(len(found))


@handles(specs.MONITOR)
def monitor(client: Client, args: list[bytes]) -> bytes:
    """Begin to monitor a master and reply OK; its replicas are found later."""
    sentinel = state_of(client.server)
    quorum = parse_integer(args[5], b"ERR Invalid quorum")
    port = parse_integer(args[4], b"ERR Invalid port")
    if not is_address(args[3]):
        raise ReplyError(b"ERR Invalid IP address or hostname specified")
    try:
        settings = sentinel.settings.monitor(args[2], args[3], port, quorum)
    except ValueError as error:
        raise ReplyError(b"ERR " + str(error).encode()) from None
    sentinel.monitor.watch(settings)
    return replies.OK


@handles(specs.REMOVE)
def remove(client: Client, args: list[bytes]) -> bytes:
    """Stop monitoring a master and reply OK."""
    state_of(client.server).monitor.forget(named_master(client, args[2]))
    return replies.OK


@handles(specs.SET)
def set_(client: Client, args: list[bytes]) -> bytes:
    """Change options of a master and reply OK; publish ``+set`` for each.

    An invalid option gets an error; the options before it stay changed.
    """
    sentinel = state_of(client.server)
    master = named_master(client, args[2])
    at = 3
    while at < len(args):
        option = args[at].lower()
        if at + 1 == len(args):
            raise ReplyError(
                b"ERR Unknown option or number of arguments for SENTINEL SET '%b'" % shown(args[at])
            )
        value = args[at + 1]
        if option in _SCRIPTS:
            raise ReplyError(_SCRIPTS_DENIED)
        try:
            master.settings.set(option, value)
        except KeyError:
            raise ReplyError(
                b"ERR Unknown option or number of arguments for SENTINEL SET '%b'" % shown(args[at])
            ) from None
        except ValueError:
            raise ReplyError(
                b"ERR Invalid argument '%b' for SENTINEL SET '%b'" % (shown(value), shown(args[at]))
            ) from None
        secret = option == b"auth-pass"
        text = b"******" if secret else value
        sentinel.monitor.publish(
            "+set", f"{master} {option.decode()} {text.decode('utf-8', 'surrogateescape')}"
        )
        at += 2
    return replies.OK


@handles(specs.CONFIG)
def config(client: Client, args: list[bytes]) -> bytes:
    """Reply to GET with a map of the parameters that match a glob; change parameters by SET and reply OK."""
    action = args[2].upper()
    if action == b"GET":
        parameters = _parameters(client)
        fits = [matcher(word, ignore_case=True) for word in args[3:]]
        found = [
            (name, replies.bulk(value))
            for name, value in parameters.items()
            if any(fit(name) for fit in fits)
        ]
        return replies.map_of(found, client.resp)
    if action != b"SET" or len(args) < 5:
        raise ReplyError(
            b"ERR Only SENTINEL CONFIG GET <param> [<param> <param> ...] / SET <param> <value> [<param> <value> ...] "
            b"are supported."
        )
    changes = [_change(client, args[at : at + 2]) for at in range(3, len(args), 2)]
    for name, value in changes:
        if name == b"loglevel":
            client.server.config.set([(name, value)])
        elif name in state_of(client.server).settings.shown:
            state_of(client.server).settings.shown[name] = value
    return replies.OK


def _parameters(client: Client) -> dict[bytes, bytes]:
    shown_to_others = state_of(client.server).settings.shown
    names = {b"resolve-hostnames": b"no", b"announce-hostnames": b"no"}
    return names | shown_to_others | client.server.config.get([b"loglevel"])


def _change(client: Client, words: list[bytes]) -> tuple[bytes, bytes]:
    """Validate a change; return the parameter's name in lower case and its new value."""
    name = words[0].lower()
    if name not in _parameters(client):
        raise ReplyError(b"ERR Invalid argument '%b' to SENTINEL CONFIG SET" % shown(words[0]))
    if len(words) == 1:
        raise ReplyError(b"ERR Missing argument '%b' value" % shown(words[0]))
    value = words[1]
    is_valid = True
    if name == b"loglevel":
        is_valid = value.lower() in _LEVELS
    elif name == b"announce-port":
        is_valid = value.isdigit() and int(value[:6]) <= 65535
    elif name.endswith(b"-hostnames"):
        is_valid = value.lower() == b"no"  # a sentinel of Rillet monitors addresses
    if not is_valid:
        raise ReplyError(
            b"ERR Invalid value '%b' to SENTINEL CONFIG SET '%b'" % (shown(value), shown(words[0]))
        )
    return name, value
