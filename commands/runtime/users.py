"""The users of a server and their permissions: rules, their text, and the check of a command against them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Final

from ...protocol.globs import Matcher, matcher
from ...protocol.regex import regex
from ..spec.command import CATEGORIES, EVERY_MODE, Command, keys_of, subcommands_of
from ..spec.versions import Compat
from .denials import Denial, Reason

UNKNOWN: Final = b"Unknown command or category name in ACL"
SYNTAX: Final = b"Syntax error"
_NESTED: Final = b"Allowing first-arg of a subcommand is not supported"
_BEHIND_ALL_KEYS: Final = (
    b"Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. "
    b"Try 'resetkeys' to start with an empty list of patterns"
)
_BEHIND_ALL_CHANNELS: Final = (
    b"Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. "
    b"Try 'resetchannels' to start with an empty list of channels"
)
_BAD_HASH: Final = (
    b"The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
)
_NO_SUCH_PASSWORD: Final = b"The password you are trying to remove from the user does not exist"
_HASH: Final = regex(rb"[0-9a-f]{64}\Z")
_SPACE: Final = re.compile(rb"[\s\0]")
_CHANGES: Final = frozenset(("insert", "delete", "update"))
_CONDITIONS: Final = frozenset((b"IFEQ", b"IFNE", b"IFDEQ", b"IFDNE"))
_LITERAL_CHANNELS: Final = {"publish": 2, "spublish": 2, "subscribe": None, "ssubscribe": None}


class RuleError(Exception):
    """A rule cannot be applied; ``text`` is the message of Redis."""

    def __init__(self, text: bytes) -> None:
        super().__init__(os.fsdecode(text))
        self.text = text


class Selector:
    """One set of permissions of a user (ACL selectors): a command runs if a single selector allows all of it."""

    def __init__(self, *, all_channels: bool = False) -> None:
        self.commands: set[str] = set()  # full names that are allowed, containers included
        # By command: the lower-case first arguments with which it is allowed, if it is allowed only so.
        self.first_words: dict[str, list[bytes]] = {}
        # The rules that produced ``commands``, in order: ``+@all``, ``-get`` …
        self.rules = [b"-@all"]
        # By key pattern, whether matching keys may be (read, written); ignored under ``all_keys``.
        self.patterns: dict[bytes, tuple[bool, bool]] = {}
        self.channels: list[bytes] = []  # patterns; ignored under ``all_channels``
        self.all_keys = False
        self.all_channels = all_channels
        # The compiled matchers by pattern, which a copy keeps, and the list of matchers for each kind of check.
        self._matchers: dict[bytes, Matcher] = {}
        self._asked: dict[object, list[Matcher]] = {}

    def copy(self) -> Selector:
        """Return a deep copy."""
        copy = Selector()
        copy.commands = set(self.commands)
        copy.first_words = {name: list(words) for name, words in self.first_words.items()}
        copy.rules = list(self.rules)
        copy.patterns = dict(self.patterns)
        copy.channels = list(self.channels)
        copy.all_keys, copy.all_channels = self.all_keys, self.all_channels
        copy._matchers = dict(self._matchers)
        return copy

    # Rules

    def apply(self, rule: bytes) -> None:
        """Change the permissions by one word of ACL SETUSER. Raises RuleError: the word is not a rule of a selector."""
        self._asked = {}
        word = rule.lower()
        if word in {b"allkeys", b"~*"}:
            self.all_keys = True
            self.patterns.clear()
            self._matchers.clear()
        elif word == b"resetkeys":
            self.all_keys = False
            self.patterns.clear()
            self._matchers.clear()
        elif word in {b"allchannels", b"&*"}:
            self.all_channels = True
            self.channels.clear()
            self._matchers.clear()
        elif word == b"resetchannels":
            self.all_channels = False
            self.channels.clear()
            self._matchers.clear()
        elif word in {b"allcommands", b"+@all"}:
            self._all_commands(allowed=True)
        elif word in {b"nocommands", b"-@all"}:
            self._all_commands(allowed=False)
        elif rule[:1] in {b"~", b"%"}:
            self._key_pattern(rule)
        elif rule[:1] == b"&":
            if self.all_channels:
                raise RuleError(_BEHIND_ALL_CHANNELS)
            if _SPACE.search(rule):
                raise RuleError(SYNTAX)
            if rule[1:] not in self.channels:
                self.channels.append(rule[1:])
        elif word[:2] in {b"+@", b"-@"}:
            self._category(word)
        elif word[:1] in {b"+", b"-"}:
            self._command(word)
        else:
            raise RuleError(SYNTAX)

    def _all_commands(self, *, allowed: bool) -> None:
        self.commands = set(EVERY_MODE) if allowed else set()
        self.first_words.clear()
        self.rules = [b"+@all" if allowed else b"-@all"]

    def _key_pattern(self, rule: bytes) -> None:
        if self.all_keys:
            raise RuleError(_BEHIND_ALL_KEYS)
        readable = writable = True
        letters, _, pattern = rule.partition(b"~")
        if letters:
            letters = letters[1:].upper()
            if letters not in {b"R", b"W", b"RW", b"WR"}:
                raise RuleError(SYNTAX)
            readable, writable = b"R" in letters, b"W" in letters
        if _SPACE.search(pattern):
            raise RuleError(SYNTAX)
        before = self.patterns.get(pattern, (False, False))
        self.patterns[pattern] = before[0] or readable, before[1] or writable

    def _category(self, word: bytes) -> None:
        category = word[2:].decode("latin-1")
        if category not in CATEGORIES:
            raise RuleError(UNKNOWN)
        for name, command in EVERY_MODE.items():
            if category in command.categories:
                self._set(name, allowed=word[:1] == b"+")
        self._note(word)

    def _command(self, word: bytes) -> None:
        allowed = word[:1] == b"+"
        name = word[1:].decode("latin-1")
        if name in EVERY_MODE:
            self._set(name, allowed=allowed)
        else:
            head, bar, first = name.rpartition("|")
            if not bar or not allowed or head not in EVERY_MODE:
                raise RuleError(UNKNOWN)
            if "|" in head:
                raise RuleError(_NESTED)
            if not first:
                raise RuleError(SYNTAX)
            if subcommands_of(head):
                raise RuleError(UNKNOWN)
            if _SPACE.search(word):
                raise RuleError(SYNTAX)  # as text it would be several words or lines
            words = self.first_words.setdefault(head, [])
            if first.encode("latin-1") not in words:
                words.append(first.encode("latin-1"))
        self._note(word)

    def _set(self, name: str, *, allowed: bool) -> None:
        names = [name, *(sub.name for sub in subcommands_of(name))]
        self.first_words.pop(name, None)
        if allowed:
            self.commands.update(names)
        else:
            self.commands.difference_update(names)

    def _note(self, word: bytes) -> None:
        """Append a rule and remove the rules that it replaces."""
        subject = word[1:]
        self.rules = [
            self.rules[0],
            *(
                rule
                for rule in self.rules[1:]
                if rule[1:] != subject and not rule[1:].startswith(subject + b"|")
            ),
            word,
        ]

    # Their text

    @property
    def key_rules(self) -> bytes:
        """The key patterns as in ACL GETUSER: ``~*``, or patterns with ``~``, ``%R~``, ``%W~``."""
        if self.all_keys:
            return b"~*"
        heads = {(True, True): b"~", (True, False): b"%R~", (False, True): b"%W~"}
        return b" ".join(heads[access] + pattern for pattern, access in self.patterns.items())

    @property
    def channel_rules(self) -> bytes:
        """The channels as in ACL GETUSER: ``&*`` or patterns."""
        return b"&*" if self.all_channels else b" ".join(b"&" + pattern for pattern in self.channels)

    @property
    def command_rules(self) -> bytes:
        """The command rules as in ACL GETUSER: ``-@all +get``."""
        return b" ".join(self.rules)

    def describe(self) -> bytes:
        """Return the rules in one line; ``apply`` accepts its words."""
        reset = b"" if self.all_channels else b"resetchannels"
        return b" ".join(filter(None, (self.key_rules, reset, self.channel_rules, self.command_rules)))

    # The check

    def check(self, command: Command, argv: list[bytes]) -> Denial | None:
        """Return why the command is denied; None if it is allowed."""
        if command.name not in self.commands and "no_auth" not in command.flags:
            position = 2 if command.container else 1
            words = self.first_words.get(command.name, [])
            if len(argv) <= position or argv[position].lower() not in words:
                return Denial(Reason.COMMAND, command.name.encode())
        if not self.all_keys and command.key_specs:
            for reference in keys_of(command, argv):
                if "not_key" in reference.flags:
                    continue
                needs = flags_of(reference.flags, command, argv)
                if not self.allows_key(
                    argv[reference.index], read="access" in needs, write=bool(_CHANGES.intersection(needs))
                ):
                    return Denial(Reason.KEY, argv[reference.index], reference.index)
        if not self.all_channels:
            for index in channel_words(command, argv):
                literal = command.name == "psubscribe"
                if not self.allows_channel(argv[index], is_pattern=literal):
                    return Denial(Reason.CHANNEL, argv[index], index)
        return None

    def allows_key(self, key: bytes, *, read: bool, write: bool) -> bool:
        """Return True if a key may be read (if ``read``) and written (if ``write``)."""
        if self.all_keys:
            return True
        matchers = self._asked.get((read, write))
        if matchers is None:
            matchers = self._asked[read, write] = self._matchers_of(
                pattern
                for pattern, (may_read, may_write) in self.patterns.items()
                if (may_read or not read) and (may_write or not write)
            )
        return _any_fits(matchers, key)

    def allows_channel(self, channel: bytes, *, is_pattern: bool) -> bool:
        """Return True if a channel may be used; a pattern must equal one of the user's patterns exactly."""
        if self.all_channels:
            return True
        if is_pattern:
            return channel in self.channels
        matchers = self._asked.get("channel")
        if matchers is None:
            matchers = self._asked["channel"] = self._matchers_of(self.channels)
        return _any_fits(matchers, channel)

    def _matchers_of(self, patterns: Iterable[bytes]) -> list[Matcher]:
        known = self._matchers
        for pattern in (patterns := list(patterns)):
            if pattern not in known:
                known[pattern] = matcher(pattern)
        return [known[pattern] for pattern in patterns]

    @property
    def is_unlimited(self) -> bool:
        """Whether the selector allows every command with all keys and channels."""
        return self.all_keys and self.all_channels and len(self.commands) == len(EVERY_MODE)


def _any_fits(matchers: list[Matcher], name: bytes) -> bool:
    for fits in matchers:  # noqa: SIM110 - any() with a generator takes twice as long
        if fits(name):
            return True
    return False


def flags_of(flags: tuple[str, ...], command: Command, argv: list[bytes]) -> tuple[str, ...]:
    """Return the flags of a key in one call of a command; options may change them (SET … GET, BITFIELD).

    Args: flags: the flags of the key spec. command: the command.
    """
    if "variable_flags" not in flags:
        return flags
    options = {word.upper() for word in argv[2 if command.name == "delex" else 3 :]}
    if command.name == "bitfield":
        return ("RO", "access") if _only_reads_bits(argv) else ("RW", "access", "update")
    if command.name == "delex":
        return ("RM", "delete") if _CONDITIONS.isdisjoint(options) else ("RW", "delete")
    if b"GET" in options:
        return "RW", "access", "update"
    return ("RW", "update") if _CONDITIONS & options and _compares(command) else ("OW", "update")


def _compares(command: Command) -> bool:
    """Return True if SET has conditions on the value (8.4)."""
    return any(part.name == "ifeq-value" for argument in command.arguments for part in argument.arguments)


def _only_reads_bits(argv: list[bytes]) -> bool:
    """Return True if every operation of BITFIELD is a GET; an incomplete or unknown operation may write."""
    at = 2
    while at < len(argv):
        operation = argv[at].upper()
        at += {b"GET": 3, b"OVERFLOW": 2}.get(operation, len(argv) + 1)
    return at == len(argv)


def channel_words(command: Command, argv: list[bytes]) -> Iterable[int]:
    """Return the indices of the words in ``argv`` that name channels or patterns."""
    if command.name == "psubscribe":
        return range(1, len(argv))
    if command.name in _LITERAL_CHANNELS:
        return range(1, _LITERAL_CHANNELS[command.name] or len(argv))
    return ()


_STATE: Final = attrgetter("enabled", "nopass", "sanitizes", "sanitizes_by_rule", "is_unlimited", "passwords")
# Commands and first words follow from the rules, which are shorter to compare.
_PERMISSIONS: Final = attrgetter("rules", "patterns", "channels", "all_keys", "all_channels")


class User:
    """A name with passwords and permissions. Rules outside parentheses change ``selectors[0]``."""

    __slots__ = (
        "enabled", "is_unlimited", "name", "nopass", "passwords", "sanitizes", "sanitizes_by_rule",
        "selectors",
    )  # fmt: skip

    def __init__(self, name: bytes, *, all_channels: bool = False) -> None:
        self.name = name
        self.enabled = False
        self.nopass = False
        self.passwords: list[bytes] = []  # SHA-256 in hex
        self.sanitizes = True
        self.sanitizes_by_rule = False  # 7.0 shows the rule only then
        self.selectors = [Selector(all_channels=all_channels)]
        self.is_unlimited = False

    @classmethod
    def superuser(cls) -> User:
        """Return a user with all permissions and no password, as ``default`` is at first."""
        user = cls(b"default")
        for rule in (b"+@all", b"~*", b"&*", b"on", b"nopass"):
            user.apply(rule)
        return user

    def copy(self) -> User:
        """Return a copy, on which ACL SETUSER tries its rules."""
        twin = User(self.name)
        twin.become(self)
        return twin

    def become(self, other: User) -> None:
        """Copy the permissions and passwords of another user; the name stays."""
        self.enabled, self.nopass, self.sanitizes = other.enabled, other.nopass, other.sanitizes
        self.sanitizes_by_rule = other.sanitizes_by_rule
        self.passwords = list(other.passwords)
        self.selectors = [selector.copy() for selector in other.selectors]
        self.is_unlimited = other.is_unlimited

    def is_like(self, other: User) -> bool:
        """Return True if both users have the same permissions and credentials."""
        return _STATE(self) == _STATE(other) and (
            [*map(_PERMISSIONS, self.selectors)] == [*map(_PERMISSIONS, other.selectors)]
        )

    def apply(self, rule: bytes, *, all_channels: bool = False) -> None:
        """Change the user by one word of ACL SETUSER.

        ``all_channels``: whether ``reset`` and new selectors allow all channels (acl-pubsub-default).
        Raises RuleError: the word is not a rule, or cannot be applied here.
        """
        word = rule.lower()
        if not word:
            return  # as Redis does
        if word == b"on":
            self.enabled = True
        elif word == b"off":
            self.enabled = False
        elif word == b"nopass":
            self.nopass = True
            self.passwords.clear()
        elif word == b"resetpass":
            self.nopass = False
            self.passwords.clear()
        elif word in {b"sanitize-payload", b"skip-sanitize-payload"}:
            self.sanitizes = word == b"sanitize-payload"
            self.sanitizes_by_rule = True
        elif word == b"reset":
            self.become(User(self.name, all_channels=all_channels))
        elif word == b"clearselectors":
            del self.selectors[1:]
        elif rule[:1] in {b">", b"#"}:
            self._add_password(rule)
        elif rule[:1] in {b"<", b"!"}:
            self._remove_password(rule)
        elif rule[:1] == b"(" and rule[-1:] == b")":
            selector = Selector(all_channels=all_channels)
            for inner in rule[1:-1].split():
                selector.apply(inner)
            self.selectors.append(selector)
        else:
            self.selectors[0].apply(rule)
        self.is_unlimited = any(selector.is_unlimited for selector in self.selectors)

    def _add_password(self, rule: bytes) -> None:
        hashed = rule[1:] if rule[:1] == b"#" else hash_of(rule[1:])
        if not _HASH().match(hashed):
            raise RuleError(_BAD_HASH)
        if hashed not in self.passwords:
            import hmac  # noqa: F401 - few servers have passwords; and later perhaps no file can be opened

            self.passwords.append(hashed)
        self.nopass = False

    def _remove_password(self, rule: bytes) -> None:
        hashed = rule[1:] if rule[:1] == b"!" else hash_of(rule[1:])
        if rule[:1] == b"!" and not _HASH().match(hashed):
            raise RuleError(_BAD_HASH)
        if hashed not in self.passwords:
            raise RuleError(_NO_SUCH_PASSWORD)
        self.passwords.remove(hashed)

    # Log in

    def accepts(self, password: bytes) -> bool:
        """Return True if the user is enabled and the password is right, compared in constant time."""
        if not self.enabled:
            return False
        from hmac import compare_digest

        hashed = hash_of(password)
        return self.nopass or sum(compare_digest(hashed, known) for known in self.passwords) > 0

    @property
    def is_open(self) -> bool:
        """Whether clients may log in as this user without a password (as with ``default`` at first)."""
        return self.enabled and self.nopass

    # Text

    def flags(self, compat: Compat | None = None) -> list[bytes]:
        """Return flags such as ``on`` and ``nopass``, as ACL GETUSER lists them in the version ``compat``; None: the newest."""
        found = [b"on" if self.enabled else b"off"]
        if self.nopass:
            found.append(b"nopass")
        if self.sanitizes_by_rule or compat is None or compat.shows_sanitize_payload:
            found.append(b"sanitize-payload" if self.sanitizes else b"skip-sanitize-payload")
        return found

    def describe(self, compat: Compat | None = None) -> bytes:
        """Return the rules of the user in one line, as ACL LIST of a version shows them after ``user <name>``."""
        hashes = (b"#" + password for password in self.passwords)
        others = (b"(%b)" % selector.describe() for selector in self.selectors[1:])
        return b" ".join([*self.flags(compat), *hashes, self.selectors[0].describe(), *others])

    # The check

    def check(self, command: Command, argv: list[bytes]) -> Denial | None:
        """Return why a command is denied; None if a selector allows it.

        Of several denials, return the one of the selector that allowed most of the command.
        """
        nearest: Denial | None = None
        for selector in self.selectors:
            denial = selector.check(command, argv)
            if denial is None:
                return None
            if nearest is None or (denial.reason, denial.index) > (nearest.reason, nearest.index):
                nearest = denial
        return nearest

    def may_read(self, key: bytes) -> bool:
        """Return True if some selector allows reading a key, whatever commands that selector allows."""
        return self.is_unlimited or any(
            selector.allows_key(key, read=True, write=False) for selector in self.selectors
        )

    def may_read_every_key(self) -> bool:
        """Return True if the user may read all keys.

        SORT … BY and GET require that, because they read any key.
        """
        return any(
            selector.all_keys
            or any(read and pattern == b"*" for pattern, (read, _) in selector.patterns.items())
            for selector in self.selectors
        )

    @property
    def has_channels(self) -> bool:
        """Whether some selector of the user allows any channel."""
        return any(selector.all_channels or selector.channels for selector in self.selectors)

    def may_listen(self, channels: Iterable[bytes], patterns: Iterable[bytes]) -> bool:
        """Return True if the user, after ACL SETUSER, may still subscribe to all these channels and patterns."""
        return all(
            any(selector.allows_channel(channel, is_pattern=False) for selector in self.selectors)
            for channel in channels
        ) and all(
            any(selector.allows_channel(pattern, is_pattern=True) for selector in self.selectors)
            for pattern in patterns
        )


def hash_of(password: bytes) -> bytes:
    """Return the SHA-256 in hex, the form in which passwords are stored."""
    import hashlib

    return hashlib.sha256(password).hexdigest().encode()


def is_username(name: bytes) -> bool:
    """Return True if the name is valid: it has no spaces and no zero bytes."""
    return not _SPACE.search(name)


class Users:
    """All users of a server by name; ``default`` is always among them."""

    def __init__(self) -> None:
        self.default = User.superuser()
        self.by_name: dict[bytes, User] = {b"default": self.default}

    def __iter__(self) -> Iterator[User]:
        """Iterate in the order of names, as in ACL LIST."""
        return iter([self.by_name[name] for name in sorted(self.by_name)])

    def get(self, name: bytes) -> User | None:
        """Return the user of a name; None if there is none."""
        return self.by_name.get(name)

    def copy(self) -> dict[bytes, User]:
        """Return copies of all users, for ``restore``."""
        return {name: user.copy() for name, user in self.by_name.items()}

    def restore(self, users: dict[bytes, User]) -> None:
        """Replace all users with copies that ``copy`` returned; users that still exist keep their objects."""
        before = self.by_name
        self.by_name = {}
        for name, user in users.items():
            kept = self.by_name[name] = before.get(name) or User(name)
            if not kept.is_like(user):
                kept.become(user)

    def set_password(self, password: bytes) -> None:
        """Give ``default`` this password as its only one, or with an empty one no password (requirepass)."""
        self.default.apply(b"resetpass")
        self.default.apply(b">" + password if password else b"nopass")


def joined(words: list[bytes]) -> list[bytes]:
    """Return the rules of ACL SETUSER, given as words, with each selector ``( … )`` joined to one word.

    Raises RuleError: a parenthesis is never closed.
    """
    rules: list[bytes] = []
    parts: list[bytes] = []
    for word in words:
        if not parts and not (word.startswith(b"(") and not word.endswith(b")")):
            rules.append(word)
            continue
        parts.append(word)
        if word.endswith(b")"):
            rules.append(b" ".join(parts))
            parts = []
    if parts:
        raise RuleError(b"Unmatched parenthesis in acl selector starting at '%b'." % parts[0])
    return rules
