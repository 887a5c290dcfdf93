"""Define options of the Spark formats: one record each, used to parse the option, write its errors and make its docs.

A dataclass of options declares its options with ``option(…)``, and nested dataclasses of options with ``part(…)``.
``Options.read`` fills them from the strings that Spark passes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, ClassVar, Final

from ..error_tokens import LabelledError
from . import credentials
from .addresses import Address, Deployment, Place, parse_address, place_text

_YES: Final = frozenset({"true", "yes", "1", "on"})
_NO: Final = frozenset({"false", "no", "0", "off"})
# Added by Spark itself, or by `.load(path)`.
SPARKS_OWN: Final = ("path", "checkpointLocation", "queryName", "outputMode", "triggerInterval")
# About a minute: a cluster or sentinels take longer to detect a lost master than a server takes to restart.
_RETRIES_THROUGH_A_FAILOVER: Final = 15


class OptionError(LabelledError, ValueError):
    """An option is missing, malformed or contradicts another; the text names it as users write it."""

    label = "BAD_OPTION"


@dataclass(frozen=True)
class Kind:
    """A type of option values, such as whole numbers or one of some words."""

    values: str  # for the docs: the unit of a number, or the allowed words
    # Returns the value of a text, or raises a ValueError whose text continues "option 'x' ".
    parse: Callable[[str], Any] = str
    is_secret: bool = False  # the value is never shown


SECRET: Final = Kind("text", is_secret=True)


def number(unit: str = "", least: int = 0, most: int = 2**63 - 1) -> Kind:
    """Return the type of an option whose value is a whole number from ``least`` to ``most``, both inclusive.

    ``unit`` is for the docs.
    """

    def parse(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            raise ValueError(f"takes a whole number, not {text!r}") from None
        if not least <= found <= most:
            raise ValueError(f"takes a number from {least} to {most}, not {found}")
        return found

    bounds = f"{least} to {most}" if most < 2**31 else f"{least} or more"
    return Kind(f"{unit}, {bounds}" if unit else bounds, parse)


def words(*choices: str) -> Kind:
    """Return the type of an option whose value is one of some words, in upper or lower case."""
    by_lower = {word.lower(): word for word in choices}

    def parse(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"takes {', '.join(choices)}; not {text!r}")
        return by_lower[text.lower()]

    return Kind(", ".join(f"`{word}`" for word in choices), parse)


def parse_flag(text: str) -> bool:
    """Return the value of "true" or "false". Raises ValueError: it is neither."""
    if text.lower() not in _YES | _NO:
        raise ValueError(f"takes true or false, not {text!r}")
    return text.lower() in _YES


FLAG: Final = Kind("`true`, `false`", parse_flag)


@dataclass(frozen=True)
class Option:
    """The record of one option of a Spark format."""

    name: str  # as documented; users may write it in any case
    kind: Kind  # its type
    default: str | None  # the text used if none is given; None: no default
    meaning: str  # for the docs
    kafka: str | None = None  # the name of the same option of Spark's Kafka source
    required: bool = False  # whether a missing value is an error
    excludes: tuple[str, ...] = ()  # options that must not be given with this one: a name, or name=value
    needs: tuple[str, ...] = ()  # options, one of which must be given; written like ``excludes``

    def parse(self, text: str | None) -> Any:
        """Parse an option's text (None: the default); return the value, or None if there is neither.

        Raises OptionError: it is malformed.
        """
        if text is None:
            return None
        try:
            return self.kind.parse(text)
        except ValueError as error:
            raise OptionError(f"option {self.name!r} {error}") from None


def option(
    name: str,
    kind: Kind,
    default: str | int | None,
    meaning: str,
    *,
    kafka: str | None = None,
    required: bool = False,
    excludes: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
) -> Any:
    """Declare an option as a field of a dataclass; the arguments are those of ``Option``."""
    text = str(default).lower() if isinstance(default, bool) else None if default is None else str(default)
    record = Option(name, kind, text, meaning, kafka, required, excludes, needs)
    return field(default=record.parse(text), repr=not kind.is_secret, metadata={"option": record})


def part(form: Any) -> Any:
    """Declare a field of a dataclass that is itself a dataclass of options."""
    return field(default_factory=form, metadata={"part": form})


def records(form: Any) -> dict[str, Option]:
    """Return the options that a dataclass and its parts declare, by name."""
    found = {each.name: each for each in getattr(form, "MORE", ())}
    for each in dataclasses.fields(form):
        if "part" in each.metadata:
            found |= records(each.metadata["part"])
        elif "option" in each.metadata:
            found[each.metadata["option"].name] = each.metadata["option"]
    return found


class Options:
    """A read-only, case-insensitive view of the strings given with ``.option(name, value)``.

    It can be pickled, so readers may keep it. Empty strings count as not given.
    """

    def __init__(self, given: Options | Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def items(self) -> ItemsView[str, str]:
        """Return all options: their names, in lower case, with their texts."""
        return self._given.items()

    def __contains__(self, name: str) -> bool:
        return bool(self._given.get(name.lower()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def text(self, name: str) -> str | None:
        """Return the text given for an option; None without one. The name may be in any case."""
        return self._given.get(name.lower()) or None

    def __getitem__(self, record: Option) -> Any:
        """Return the value of an option, or its default.

        Raises OptionError: it is malformed, missing, or given under both of its names.
        """
        text = self.text(record.name)
        if record.kafka is not None and record.kafka in self:
            if text is not None:
                raise OptionError(
                    f"options {record.kafka!r} and {record.name!r} are the same: give one of them"
                )
            text = self.text(record.kafka)
        if text is None and record.required:
            raise OptionError(f"option {record.name!r} is required")
        return record.parse(text or record.default)

    def read(self, form: Any) -> dict[str, Any]:
        """Return values for the fields of a dataclass that are options or parts.

        Raises OptionError: one is malformed, or contradicts another.
        """
        found: dict[str, Any] = {}
        own: dict[str, Option] = {}
        for each in dataclasses.fields(form):
            if "part" in each.metadata:
                found[each.name] = each.metadata["part"].of(self)
            elif "option" in each.metadata:
                own[each.name] = each.metadata["option"]
        found |= {name: self[record] for name, record in own.items()}
        self._refuse_contradictions(own.values(), records(form))
        return found

    def _refuse_contradictions(self, own: Iterable[Option], known: Mapping[str, Option]) -> None:
        for each in own:
            if not self._is_given(each):
                continue
            for other in each.excludes:
                if self._holds(other, known):
                    raise OptionError(f"options {each.name!r} and {_shown(other)} exclude each other")
            if each.needs and not any(self._holds(other, known) for other in each.needs):
                raise OptionError(f"option {each.name!r} goes with {' or '.join(map(_shown, each.needs))}")

    def _is_given(self, record: Option) -> bool:
        return record.name in self or (record.kafka is not None and record.kafka in self)

    def _holds(self, condition: str, known: Mapping[str, Option]) -> bool:
        """Return whether an option is given, or has a value: ``name`` or ``name=value``."""
        name, _, value = condition.partition("=")
        record = known[name]
        return bool(self[record] == record.parse(value)) if value else self._is_given(record)

    def refuse_unknown(self, form: Any) -> None:
        """Check that all names are known options of a dataclass: a misspelt limit must not silently mean no limit.

        Raises OptionError with the nearest known name.
        """
        known = records(form).values()
        aliases = (each.kafka for each in known if each.kafka is not None)
        names = {name.lower(): name for name in (*(each.name for each in known), *aliases, *SPARKS_OWN)}
        for name in sorted(self._given):
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"; did you mean {names[near[0]]!r}?" if near else ""
                raise OptionError(f"unknown option {name!r}{hint}")


def _shown(condition: str) -> str:
    return condition if "=" in condition else repr(condition)


_URL: Final = Option(
    "url",
    Kind("address", parse_address),
    None,
    "`redis://`, `redis+cluster://` or `redis+sentinel://`, with TLS `rediss…`; says host, port and db",
)
_READ_FROM: Final = Option(
    "readFrom",
    words("master", "replica"),
    "master",
    "`replica`: tasks read entries from replicas of a cluster or of sentinels",
)
_TLS_NAMES: Final = ("tlsCaCert", "tlsCert", "tlsKey", "tlsSkipVerify")
SECRETS: Final = ("password", "passwordEnv", "passwordFile", "credentialsProvider")


_SAID_BY_URL: Final = ("url",)


@dataclass(frozen=True)
class Endpoint:
    """Where the data is, and how to log in; pickled into every task. It never shows passwords.

    ``kind`` says what ``places`` are: nodes of a cluster, or sentinels that know a master as ``service``. One server
    is ``host`` and ``port``. ``timeout_ms`` limits connecting, and each reply. ``retries`` counts the tries after the
    first; the pauses between them double from ``retry_interval_ms`` up to five seconds. For a cluster or sentinels,
    all tries together take longer than a failover. ``read_replicas`` lets tasks read entries from replicas.
    """

    MORE: ClassVar = (_URL, _READ_FROM)

    host: str = option("host", Kind("name"), "127.0.0.1", "of one server", excludes=_SAID_BY_URL)
    port: int = option("port", number(least=1, most=65535), 6379, "of one server", excludes=_SAID_BY_URL)
    username: str | None = option("username", Kind("name"), None, "an ACL user; needs a password")
    password: str | None = option("password", SECRET, None, "give it in one way only")
    db: int = option("db", number(most=2**31 - 1), 0, "the number of the database", excludes=_SAID_BY_URL)
    unix_socket: str | None = option(
        "unixSocket", Kind("path"), None, "instead of host and port",
        excludes=(*_SAID_BY_URL, "host", "port", "tls=true"),
    )  # fmt: skip
    tls: bool = option("tls", FLAG, False, "speak TLS; of a url the scheme says it", excludes=_SAID_BY_URL)
    tls_ca_cert: str | None = option("tlsCaCert", Kind("path"), None, "the certificates to trust")
    tls_cert: str | None = option(
        "tlsCert", Kind("path"), None, "the client's certificate; goes with `tlsKey`", needs=("tlsKey",)
    )
    tls_key: str | None = option(
        "tlsKey", Kind("path"), None, "the client's key; goes with `tlsCert`", needs=("tlsCert",)
    )
    tls_skip_verify: bool = option("tlsSkipVerify", FLAG, False, "do not check the server's certificate")
    timeout_ms: int = option(
        "timeoutMs", number("ms", 1), 30_000, "the longest wait for a connection, and for a reply"
    )
    retries: int = option(
        "retries", number("tries", most=1000), 5,
        "after the first one; 15 with clusters and sentinels, about a minute",
    )  # fmt: skip
    retry_interval_ms: int = option(
        "retryIntervalMs", number("ms"), 200, "the pause before the second try; it doubles up to five seconds"
    )
    kind: Deployment = "server"
    places: tuple[Place, ...] = ()
    service: str | None = None
    sentinel_username: str | None = option(
        "sentinelUsername", Kind("name"), None, "for sentinels with a login of their own"
    )
    sentinel_password: str | None = option(
        "sentinelPassword", SECRET, None, "for sentinels with a login of their own"
    )
    read_replicas: bool = False
    password_env: str | None = option(
        "passwordEnv",
        Kind("name"),
        None,
        "the environment variable with the password, read for each new connection",
        excludes=SECRETS[:1],
    )
    password_file: str | None = option(
        "passwordFile", Kind("path"), None, "the file with the password, read for each new connection",
        excludes=SECRETS[:2],
    )  # fmt: skip
    credentials_provider: str | None = option(
        "credentialsProvider", Kind("package.module:name"), None,
        "a function that returns the password, or user and password", excludes=SECRETS[:3],
    )  # fmt: skip

    @classmethod
    def of(cls, options: Options | Mapping[str, str]) -> Endpoint:
        """Read the endpoint from the options of a format.

        Raises OptionError: an option is malformed, or two contradict each other.
        """
        given = Options(options)
        values = given.read(cls) | {"read_replicas": given[_READ_FROM] == "replica"}
        url: Address | None = given[_URL]
        if url is not None:
            for names, here in ((("username",), url.username), (SECRETS, url.password)):
                if here and (twice := [name for name in names if name in given]):
                    raise OptionError(
                        f"options 'url' and {twice[0]!r} exclude each other: the url has a {names[0]}"
                    )
                values[names[0]] = here or values[names[0]]
            values |= {"kind": url.kind, "service": url.service, "db": url.db, "tls": url.tls}
            values["host"], values["port"] = url.places[0]
            if url.kind != "server":
                values["places"] = url.places
                if "retries" not in given:
                    values["retries"] = _RETRIES_THROUGH_A_FAILOVER
        found = cls(**values)
        found._refuse_contradictions(given)
        return found

    def _refuse_contradictions(self, given: Options) -> None:
        if self.username and not self.password and not any(name in given for name in SECRETS):
            raise OptionError("option 'username' needs a 'password'")
        if self.credentials_provider and ":" not in self.credentials_provider:
            raise OptionError("option 'credentialsProvider' takes package.module:name, a function to call")
        if not self.tls:
            for name in _TLS_NAMES:
                if name in given:
                    raise OptionError(f"option {name!r} needs 'tls' to be true, or a rediss… url")
        if self.read_replicas and self.kind == "server":
            raise OptionError(
                "readFrom=replica needs the url of a cluster or of sentinels, which name replicas"
            )
        if self.kind != "sentinel" and ("sentinelUsername" in given or "sentinelPassword" in given):
            raise OptionError(
                "options 'sentinelUsername' and 'sentinelPassword' go with a redis+sentinel url"
            )

    def at(self, place: Place) -> Endpoint:
        """Return a copy with the address of one server; the caller chooses which place to try next."""
        host, port = place
        return replace(self, host=host, port=port, kind="server", places=(), service=None, retries=0)

    def login(self) -> tuple[str | None, str | None]:
        """Return the current user name and password; call it for each new connection.

        Raises OptionError: they cannot be read.
        """
        if not (self.password_env or self.password_file or self.credentials_provider):
            return self.username, self.password
        try:
            return credentials.read(
                self.username,
                env=self.password_env,
                file=self.password_file,
                provider=self.credentials_provider,
            )
        except ValueError as error:
            raise OptionError(str(error)) from error

    def __str__(self) -> str:
        """Return the address for messages, without a password."""
        if self.places:
            nodes = ", ".join(map(place_text, self.places))
            place = (
                f"the cluster of {nodes}"
                if self.kind == "cluster"
                else f"{self.service} by sentinels {nodes}"
            )
        else:
            place = self.unix_socket or f"{self.host}:{self.port}"
        return f"{place}{f' db {self.db}' if self.db else ''}{' (TLS)' if self.tls else ''}"
