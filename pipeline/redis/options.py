"""Options of the Spark formats: strings under case-insensitive names, read with errors a user can act on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, overload

from ..error_tokens import LabelledError
from . import credentials
from .addresses import Address, Kind, Place, parse_address, place_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_YES: Final = frozenset({"true", "yes", "1", "on"})
_NO: Final = frozenset({"false", "no", "0", "off"})
# What Spark itself or a plain `.load(path)` adds.
SPARKS_OWN: Final = ("path", "checkpointLocation", "queryName", "outputMode", "triggerInterval")
ENDPOINT_NAMES: Final = (
    "url", "host", "port", "username", "password", "db", "unixSocket", "readFrom",
    "sentinelUsername", "sentinelPassword",
    "tls", "tlsCaCert", "tlsCert", "tlsKey", "tlsSkipVerify",
    "timeoutMs", "retries", "retryIntervalMs",
    *credentials.NAMES,
)  # fmt: skip


# About a minute: a cluster or sentinels take longer to see that a master is gone than a server to start again.
_RETRIES_THROUGH_A_FAILOVER: Final = 15


class OptionError(LabelledError, ValueError):
    """An option is missing, malformed or contradicts another; the text names it as users write it."""

    label = "BAD_OPTION"


class Options:
    """A read-only, case-insensitive view of the strings given with ``.option(name, value)``.

    Pickles, so readers may keep it. Empty strings count as not given.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def renamed(self, aliases: Mapping[str, str]) -> Options:
        """Return the same with the names that Kafka's source has for ours.

        Args:
            aliases: our name by each other one.

        Raises:
            OptionError: one is given under both names.
        """
        given = dict(self._given)
        for other, name in aliases.items():
            if other not in self:
                continue
            if name in self:
                raise OptionError(f"options {other!r} and {name!r} are the same: give one of them")
            given[name.lower()] = given.pop(other.lower())
        return Options(given)

    def __contains__(self, name: str) -> bool:
        return bool(self._given.get(name.lower()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """Refuse the first unknown option: a misspelt limit must not silently be no limit.

        Raises:
            OptionError: with the nearest known name.
        """
        names = {name.lower(): name for name in (*known, *SPARKS_OWN)}
        for name in sorted(self._given):
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"; did you mean {names[near[0]]!r}?" if near else ""
                raise OptionError(f"unknown option {name!r}{hint}")

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return the string, or the default."""
        return self._given.get(name.lower()) or default

    def required(self, name: str) -> str:
        """Return the string.

        Raises:
            OptionError: it is not given.
        """
        value = self.text(name)
        if value is None:
            raise OptionError(f"option {name!r} is required")
        return value

    @overload
    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**63 - 1) -> int: ...

    @overload
    def number(
        self, name: str, default: None = None, *, least: int = 0, most: int = 2**63 - 1
    ) -> int | None: ...

    def number(
        self, name: str, default: int | None = None, *, least: int = 0, most: int = 2**63 - 1
    ) -> int | None:
        """Return a whole number between two bounds, or the default.

        Raises:
            OptionError: it is none.
        """
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise OptionError(f"option {name!r} takes a whole number, not {value!r}") from None
        if not least <= number <= most:
            raise OptionError(f"option {name!r} takes a number from {least} to {most}, not {number}")
        return number

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return whether it is set to true.

        Raises:
            OptionError: it is neither true nor false.
        """
        value = self.text(name)
        if value is None:
            return default
        if value.lower() in _YES:
            return True
        if value.lower() in _NO:
            return False
        raise OptionError(f"option {name!r} takes true or false, not {value!r}")

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """Return one of several words, in whatever case it was written.

        Raises:
            OptionError: it is none of them.
        """
        words = {word.lower(): word for word in choices}
        value = self.text(name, default)
        assert value is not None
        if value.lower() not in words:
            raise OptionError(f"option {name!r} takes {', '.join(words.values())}; not {value!r}")
        return words[value.lower()]


@dataclass(frozen=True)
class Endpoint:
    """Where the data is and how to get in; pickles into every task, and never shows its passwords.

    ``kind`` says what ``places`` are: nodes of a cluster, or sentinels that know a master as ``service``; one server is
    ``host`` and ``port``. ``timeout_ms`` bounds the connection and each reply. ``retries`` counts tries after the first one, with
    pauses from ``retry_interval_ms`` doubling up to five seconds: of a cluster or by sentinels, more than a
    failover takes. ``read_replicas`` lets tasks read entries from replicas.
    """

    host: str = "127.0.0.1"
    port: int = 6379
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    db: int = 0
    unix_socket: str | None = None
    tls: bool = False
    tls_ca_cert: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_skip_verify: bool = False
    timeout_ms: int = 30_000
    retries: int = 5
    retry_interval_ms: int = 200
    kind: Kind = "server"
    places: tuple[Place, ...] = ()
    service: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    read_replicas: bool = False
    password_env: str | None = None
    password_file: str | None = None
    credentials_provider: str | None = None

    @classmethod
    def of(cls, options: Options | Mapping[str, str]) -> Endpoint:
        """Read it from the options of a format.

        Raises:
            OptionError: an option is malformed, or two contradict each other.
        """
        given = options if isinstance(options, Options) else Options(options)
        at = _address(given)
        host, port = at.places[0]
        retries = cls.retries if at.kind == "server" else _RETRIES_THROUGH_A_FAILOVER
        endpoint = cls(
            host=host,
            port=port,
            username=at.username or given.text("username"),
            password=at.password or given.text("password"),
            db=at.db,
            unix_socket=given.text("unixSocket"),
            tls=at.tls,
            tls_ca_cert=given.text("tlsCaCert"),
            tls_cert=given.text("tlsCert"),
            tls_key=given.text("tlsKey"),
            tls_skip_verify=given.flag("tlsSkipVerify"),
            timeout_ms=given.number("timeoutMs", cls.timeout_ms, least=1),
            retries=given.number("retries", retries, most=1000),
            retry_interval_ms=given.number("retryIntervalMs", cls.retry_interval_ms),
            kind=at.kind,
            places=() if at.kind == "server" else at.places,
            service=at.service,
            sentinel_username=given.text("sentinelUsername"),
            sentinel_password=given.text("sentinelPassword"),
            read_replicas=given.choice("readFrom", ("master", "replica"), "master") == "replica",
            password_env=given.text("passwordEnv"),
            password_file=given.text("passwordFile"),
            credentials_provider=given.text("credentialsProvider"),
        )
        endpoint._refuse_contradictions(given)
        return endpoint

    def _refuse_contradictions(self, given: Options) -> None:
        if self.unix_socket and ("host" in given or "port" in given or self.tls):
            raise OptionError("option 'unixSocket' goes without 'host', 'port' and 'tls'")
        ways = [name for name in ("password", *credentials.NAMES) if name in given]
        if self.password and "password" not in ways:
            ways.append("url")
        if len(ways) > 1:
            raise OptionError(f"give one of the options {', '.join(map(repr, ways))}")
        if self.username and not ways:
            raise OptionError("option 'username' needs a 'password'")
        if self.credentials_provider and ":" not in self.credentials_provider:
            raise OptionError("option 'credentialsProvider' takes package.module:name, a function to call")
        if not self.tls:
            for name in ("tlsCaCert", "tlsCert", "tlsKey", "tlsSkipVerify"):
                if name in given:
                    raise OptionError(f"option {name!r} needs 'tls' to be true, or a rediss… url")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise OptionError("options 'tlsCert' and 'tlsKey' go together")
        if self.read_replicas and self.kind == "server":
            raise OptionError(
                "readFrom=replica needs the url of a cluster or of sentinels, which name replicas"
            )
        if self.kind != "sentinel" and ("sentinelUsername" in given or "sentinelPassword" in given):
            raise OptionError(
                "options 'sentinelUsername' and 'sentinelPassword' go with a redis+sentinel url"
            )

    def at(self, place: Place) -> Endpoint:
        """Return one server of it: the next place to try is for the caller to find."""
        host, port = place
        return replace(self, host=host, port=port, kind="server", places=(), service=None, retries=0)

    def login(self) -> tuple[str | None, str | None]:
        """Return user name and password as they are now; ask for each new connection.

        Raises:
            OptionError: they cannot be read.
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
        """Return the address for messages: no password in it."""
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


def _address(given: Options) -> Address:
    """Read ``url``, or the options that say the same of one server.

    Raises:
        OptionError: it is malformed, or both are given.
    """
    url = given.text("url")
    if url is None:
        host = given.text("host") or Endpoint.host
        port = given.number("port", Endpoint.port, least=1, most=65535)
        return Address("server", given.flag("tls"), ((host, port),), db=given.number("db", 0, most=2**31 - 1))
    for name in ("host", "port", "db", "unixSocket", "tls"):
        if name in given:
            raise OptionError(f"option {name!r} goes without 'url', which says it")
    try:
        found = parse_address(url)
    except ValueError as error:
        raise OptionError(f"option 'url' {error}") from None
    for name, here in (("username", found.username), ("password", found.password)):
        if here and name in given:
            raise OptionError(f"option {name!r} is in 'url', too")
    return found
