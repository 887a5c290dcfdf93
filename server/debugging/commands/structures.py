"""DEBUG HTSTATS, LISTPACK, QUICKLIST and SDSLEN: show how Redis would store the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection as Sized
from sys import getsizeof
from typing import Final

from ....commands.keys.object import encoding
from ....commands.runtime.arguments import parse_integer
from ....commands.runtime.client import Client
from ....protocol import replies
from ....protocol.errors import NO_SUCH_KEY, ReplyError, wrong_subcommand_arguments
from ....storage.collections.base import Collection
from ....storage.collections.hash import Hash
from ....storage.collections.list import QUICKLIST, List
from ....storage.collections.set import HASHTABLE, LISTPACK, Set
from ....storage.collections.sorted_set import SortedSet
from ....storage.collections.string import INTEGER
from ....storage.value_types import Value

_SMALLEST_TABLE: Final = 4
_FIRST_BRIEF: Final = "7.4"  # from this version on, the distribution is shown only on request
_NO_TABLE: Final = b"ERR The value stored at the specified key is not represented using an hash table"


def _table(keys: Sized[bytes], *, full: bool) -> bytes:
    """Describe the chained hash table that Redis would use for these keys, when it is not rehashing."""
    size = max(_SMALLEST_TABLE, 1 << (len(keys) - 1).bit_length())
    text = b"Hash table 0 stats (main hash table):\n table size: %d\n number of elements: %d\n" % (
        size,
        len(keys),
    )
    if not full:
        return text
    # As in Redis, a key's slot depends on its SipHash with a seed of this process.
    chains = Counter(hash(key) & (size - 1) for key in keys)
    lengths = Counter(chains.values())
    lengths[0] = size - len(chains)
    text += (
        b" different slots: %d\n max chain length: %d\n avg chain length (counted): %.02f\n"
        b" avg chain length (computed): %.02f\n Chain length distribution:\n"
    ) % (len(chains), max(lengths), len(keys) / len(chains), len(keys) / len(chains))
    for length, number in sorted(lengths.items()):
        if number:
            text += b"   %d: %d (%.02f%%)\n" % (length, number, 100 * number / size)
    return text


def _is_full(client: Client, args: list[bytes]) -> bool:
    """Return True if the distribution is to be shown, too; before this was an option, it always was."""
    if client.server.compat.knows(_FIRST_BRIEF):
        return len(args) > 3 and args[3].lower() == b"full"
    if len(args) > 3:
        raise wrong_subcommand_arguments(args)
    return True


def htstats(client: Client, args: list[bytes]) -> bytes:
    """Reply with a text: statistics of the hash tables of a database's keys and of its expiry times."""
    full = _is_full(client, args)
    number = parse_integer(args[2])
    databases = client.server.keyspace.databases
    if not 0 <= number < len(databases):
        raise ReplyError(b"ERR Out of range database")
    db = databases[number]
    text = b""
    for title, keys in ((b"[Dictionary HT]\n", db.entries), (b"[Expires HT]\n", db.expires)):
        text += title
        if keys:
            text += _table(keys, full=full)
        elif not client.server.compat.knows(_FIRST_BRIEF):
            text += b"Hash table 0 stats (main hash table):\nNo stats available for empty dictionaries\n"
    return replies.verbatim(text, client.resp)


def htstats_key(client: Client, args: list[bytes]) -> bytes:
    """Reply with a text: statistics of the hash table of one value; refuse a value that has none."""
    full = _is_full(client, args)
    keys = _keys_of(_value(client, args[2]))
    if keys is None:
        raise ReplyError(_NO_TABLE)
    return replies.verbatim(_table(keys, full=full), client.resp)


def _keys_of(value: Value) -> Sized[bytes] | None:
    """Return the keys of the hash table that holds a value; None if Redis stores it in another form."""
    if isinstance(value, (Hash, Set)) and value.encoding == HASHTABLE:
        return value.fields if isinstance(value, Hash) else value.members
    if isinstance(value, SortedSet) and value.encoding == b"skiplist":
        return value.scores
    return None


def listpack(client: Client, args: list[bytes]) -> bytes:
    """Log the size of a value that Redis would keep as a listpack, and reply with a note; refuse others."""
    value = _value(client, args[2])
    compat = client.server.compat
    older = (type(value) is List and not compat.compact_lists) or (
        type(value) is Set and not compat.compact_sets
    )
    if older or not encoding(client.db, args[2], value, compat).startswith(LISTPACK):
        raise ReplyError(b"ERR Not a listpack encoded object.")
    return _shown(client, args[2], value, b"Listpack")


def quicklist(client: Client, args: list[bytes]) -> bytes:
    """Log the size of a list that Redis would keep as a quicklist, and reply with a note; refuse others."""
    value = _value(client, args[2])
    if type(value) is not List or (client.server.compat.compact_lists and value.encoding is not QUICKLIST):
        raise ReplyError(b"ERR Not a quicklist encoded object.")
    return _shown(client, args[2], value, b"Quicklist")


def sdslen(client: Client, args: list[bytes]) -> bytes:
    """Reply with a text: the length and the memory in bytes of a key and of its string."""
    key = args[2]
    value = _value(client, key)
    if type(value) is not bytes or encoding(client.db, key, value, client.server.compat) == INTEGER:
        raise ReplyError(b"ERR Not an sds encoded string.")
    return replies.simple(
        b"key_sds_len:%d, key_sds_avail:0, key_zmalloc: %d, val_sds_len:%d, val_sds_avail:0, val_zmalloc: %d"
        % (len(key), getsizeof(key), len(value), getsizeof(value))
    )


def _value(client: Client, key: bytes) -> Value:
    value = client.db.peek(key)
    if value is None:
        raise ReplyError(NO_SUCH_KEY)
    return value


def _shown(client: Client, key: bytes, value: Value, structure: bytes) -> bytes:
    """Log the details that Redis prints of a structure; as in Redis, the reply names standard output."""
    assert isinstance(value, Collection)
    name = key.decode("utf-8", "backslashreplace")
    client.server.log.notice(
        f"{structure.decode()} {name}: {len(value)} elements, {value.payload_bytes} bytes"
    )
    return replies.simple(structure + b" structure printed on stdout")
