"""The pages: their subjects, and the data of their templates."""

from __future__ import annotations

import datetime as dt
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from . import clients, debugging, keys, redrive, timeline
from .connection import Subject
from .entry_history import Event
from .garbage import garbage
from .model import Entry, GroupDetail, PendingEntry, Stream
from .page_details import CELLS, GroupSubject, MessageSubject, StreamSubject, page_of
from .poller import Poller
from .render import HEAT_MS, chart
from .samples import Sample, rate
from .selection import NAMES, PENDING_SORTS, Selection, ordered, pair, selection, within
from .style import POISON_DELIVERIES
from .values import Values

ROWS: Final = 200  # streams on the overview
PENDING_ROWS: Final = 50  # pending entries on a page of a group
ENTRIES: Final = 25  # entries on a page of a stream
SORTS: Final = ("trouble", "name", "length", "memory", "rate", "lag", "oldest")


class NotFoundError(Exception):
    """The stream, group or message does not exist (any more)."""


class Page(ABC):
    """A page at an address. Raises ValueError: the address lacks a name."""

    template: ClassVar[str]
    # Templates of the live parts; a changed part is sent again, and replaces the element of its name.
    parts: ClassVar[tuple[str, ...]] = ()
    subjects: Sequence[Subject[Any]] = ()  # read regularly while the page is open

    def __init__(self, typed: Mapping[str, str]) -> None:
        self.typed = typed
        self.values = Values(typed)

    @abstractmethod
    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data of the live parts.

        Raises:
            NotFoundError: the subject of the page does not exist.
            GoneError: the server cannot be reached.
        """

    async def whole_context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data of the whole page: that of ``context``, and that of parts that are not live."""
        return await self.context(poller)


class OverviewPage(Page):
    """The page of all streams, sorted by trouble, worst first, or as the query string ``sort`` says."""

    template = "overview.html"
    parts = ("streams",)

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the last round's streams whose key contains ``find``, sorted, and totals over all."""
        overview = poller.overview
        find = self.values.text("find")
        sort = self.values.text("sort", "trouble")
        fitting = [
            stream
            for stream in overview.streams.values()
            if not find or find.lower().encode() in stream.key.lower()
        ]
        fitting.sort(key=lambda stream: stream.key)
        if sort != "name":
            fitting.sort(key=lambda stream: _sort_key(stream, sort), reverse=True)
        streams = overview.streams.values()
        return {
            "overview": overview,
            "poison": POISON_DELIVERIES,
            "rows": fitting[:ROWS],
            "fitting": len(fitting),
            "find": find,
            "sort": sort,
            "sorts": SORTS,
            "pending": sum(stream.pending for stream in streams),
            "groups": sum(len(stream.groups) for stream in streams),
            "rate_in": sum(stream.rate_in or 0 for stream in streams),
            "rate_out": sum(stream.rate_out or 0 for stream in streams),
            "worst_lag": max((stream.worst_lag or 0 for stream in streams), default=0),
            "unread": sum(
                group.pending for stream in streams for group in stream.groups if not group.read_at
            ),
            "oldest": max(
                (stream.oldest_idle for stream in streams if stream.oldest_idle is not None), default=None
            ),
        }


def _has_letters(entries: Iterable[Entry]) -> bool:
    return any(name == redrive.ORIGIN[0] for entry in entries for name, _ in entry.fields)


def _sort_key(stream: Stream, sort: str) -> Any:
    return {
        "length": stream.length,
        "memory": stream.memory or 0,
        "rate": stream.rate_in or 0,
        "lag": stream.worst_lag or 0,
        "oldest": stream.oldest_idle or 0,
    }.get(sort, stream.trouble)


class StreamPage(Page):
    """The page of a stream: its groups, its newest entries live, and older entries by ID, time and field."""

    template = "stream.html"
    parts = ("stream_facts", "stream_groups", "stream_tail", "chart_data")

    def __init__(self, typed: Mapping[str, str]) -> None:
        super().__init__(typed)
        self.key = self.values.word("key")
        self.subjects = [StreamSubject(self.key)]

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the stream and its groups just read, and the last rounds' findings in their PELs."""
        detail = await poller.data_of(StreamSubject(self.key))
        if detail.missing:
            raise NotFoundError("There is no stream with this key.")
        known = poller.overview.streams.get(self.key)
        fresh = {group.name: group for group in detail.stream.groups}
        stream = detail.stream
        if known is not None:
            kept = {group.name: group for group in known.groups}
            groups = tuple(
                replace(
                    group,
                    oldest_id=kept[name].oldest_id,
                    oldest_idle=kept[name].oldest_idle,
                    most_id=kept[name].most_id,
                    most_deliveries=kept[name].most_deliveries,
                    looked=kept[name].looked,
                    read_at=kept[name].read_at,
                )
                if name in kept and group.pending
                else group
                for name, group in fresh.items()
            )
            stream = replace(known, length=stream.length, first_id=stream.first_id, groups=groups)
        samples = poller.samples.of((self.key,))
        return {
            "key": self.key,
            "poison": POISON_DELIVERIES,
            "stream": stream,
            "detail": detail,
            "garbage": garbage(stream, poller.overview.facts),
            "has_letters": _has_letters(detail.newest),
            "now": detail.now,
            "chart": chart(samples, {"length": (1, False), "added/s": (2, True), "delivered/s": (3, True)}),
        }

    async def whole_context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data of ``context``, and the requested page of older entries."""
        older = await self._older(poller)
        letters = {"has_letters": _has_letters(older["page"].entries)} if older["page"] else {}
        return {**await self.context(poller), **older, **letters}

    async def _older(self, poller: Poller) -> dict[str, Any]:
        start, field, contains = (self.values.text(name) for name in ("from", "field", "contains"))
        problem, page = "", None
        if start or field or contains:
            try:
                at = _start(start)
            except ValueError as error:
                problem = str(error)
            else:
                fields = self.values.word("field") if field else b""
                page = await page_of(poller.link, self.key, at, ENTRIES, fields, contains.encode())
        return {"page": page, "from_": start, "field": field, "contains": contains, "problem": problem}


def _start(text: str) -> str:
    """Return the ID to start at: an ID, or the last one of a moment. Raises ValueError: it is neither."""
    if not text:
        return "+"
    try:
        if "T" in text or ":" in text or text.count("-") == 2:
            moment = dt.datetime.fromisoformat(text)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=dt.UTC)
            return str(int(moment.timestamp() * 1000))
        pair(text)
    except ValueError:
        raise ValueError(
            f"{text} is neither an ID nor a time: write 1526919030474-0 or 2026-05-21T14:30"
        ) from None
    return text


def kept_of(values: Values) -> dict[str, str]:
    """Return the parameters of a group's table (filter, order, page) that are set, for links back to it."""
    found = {name: values.text(name) for name in (*NAMES, "sort", "at") if values.text(name)}
    if found.get("sort", PENDING_SORTS[0]) not in PENDING_SORTS:
        del found["sort"]
    if not re.fullmatch(r"[1-9]\d{0,8}", found.get("at", "1"), re.ASCII):
        del found["at"]
    return found


class GroupPage(Page):
    """The page of a group: its pending entries with their consumers, times and delivery counts."""

    template = "group.html"
    parts = ("group_facts", "group_lanes", "group_pending", "chart_data")

    def __init__(self, typed: Mapping[str, str]) -> None:
        super().__init__(typed)
        self.key, self.group = self.values.word("key"), self.values.word("group")
        self.subjects = [GroupSubject(self.key, self.group)]
        self._shown: tuple[GroupDetail, dict[str, Any]] | None = None
        self._filter = kept_of(self.values)
        self._sort = self._filter.get("sort", PENDING_SORTS[0])
        self._number = int(self._filter.get("at", "1"))
        self._picked = frozenset(self.values.text("id").split())
        self._problem = ""
        self._selection = Selection(self.key, self.group)
        try:
            self._selection = selection(self.values)
        except ValueError as error:
            self._problem = str(error)

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the group, a page of the pending entries that match the filter, and the lag's chart."""
        detail = await poller.data_of(GroupSubject(self.key, self.group))
        if detail.missing:
            raise NotFoundError("There is no such group.")
        if self._shown is None or self._shown[0] is not detail:
            self._shown = (detail, self._chosen(detail))
        facts = poller.overview.facts
        samples = poller.samples.of((self.key, self.group))
        stream = poller.overview.streams.get(self.key)
        return {
            "key": self.key,
            "group": self.group,
            "detail": detail,
            "now": detail.now,
            "poison": POISON_DELIVERIES,
            "heat_ms": HEAT_MS,
            "knows_nack": facts is not None and "XNACK" in facts.commands,
            **self._shown[1],
            "rate_in": stream.rate_in if stream is not None else None,
            "rate_out": _last_rate(samples),
            "chart": chart(samples, {"lag": (1, False), "pending": (2, False), "delivered/s": (3, True)}),
        }

    def _chosen(self, detail: GroupDetail) -> dict[str, Any]:
        """Return a page of the matching entries, and the worst of all."""
        fitting = within(detail.pel, self._selection)
        pages = max(1, -(-len(fitting) // PENDING_ROWS))
        number = min(self._number, pages)
        first = (number - 1) * PENDING_ROWS
        oldest = max(detail.pel, key=lambda entry: entry.idle, default=None)
        most = max(detail.pel, key=lambda entry: entry.deliveries, default=None)
        rows = ordered(fitting, self._sort)[first : first + PENDING_ROWS]
        return {
            "rows": rows,
            "picked": self._picked,
            "elsewhere": self._elsewhere(detail, rows),
            "all_picked": bool(self.values.text("all")),
            "first": first + 1,
            "fitting": len(fitting),
            "number": number,
            "pages": pages,
            "sort": self._sort,
            "unowned_first": [entry for entry in detail.pel if not entry.consumer][:CELLS]
            if detail.unowned
            else [],
            "filter": self._filter,
            "is_filtered": any(name in self._filter for name in NAMES),
            "problem": self._problem,
            "oldest": oldest.idle if oldest is not None and oldest.idle >= 0 else None,
            "oldest_id": oldest.id if oldest is not None else "",
            "most": most.deliveries if most is not None else 0,
            "most_id": most.id if most is not None else "",
        }

    def _elsewhere(self, detail: GroupDetail, rows: list[PendingEntry]) -> list[str]:
        """Return the entries that were chosen on other pages and are still pending."""
        left = self._picked.difference(entry.id for entry in rows)
        return [entry.id for entry in detail.pel if entry.id in left] if left else []


def _last_rate(samples: list[Sample]) -> float | None:
    return rate(samples[-2], samples[-1], 3) if len(samples) > 1 else None


class MessagePage(Page):
    """The page of a message: its fields, and its state in each group."""

    template = "message.html"
    parts = ("message_groups", "message_timeline")

    def __init__(self, typed: Mapping[str, str]) -> None:
        super().__init__(typed)
        self.key = self.values.word("key")
        self.id = self.values.ids()[0].decode()
        # The possible sources of its history: the recording and the append-only file.
        self.subjects = [
            MessageSubject(self.key, self.id),
            timeline.TapeSubject(),
            timeline.FileSubject(self.key, self.id),
        ]

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the entry, its state in each group, and its history, if the server can provide one."""
        detail = await poller.data_of(MessageSubject(self.key, self.id))
        link = poller.link
        events: tuple[Event, ...] = ()
        recorded = await poller.data_of(timeline.TapeSubject())
        exists = detail.entry is not None
        if recorded:
            rows = [row for _, row in sorted(link.tape.rows.items())]
            events = timeline.events(rows, self.key, self.id, link.database, exists=exists)
        written = await poller.data_of(timeline.FileSubject(self.key, self.id))
        from_file: tuple[Event, ...] = ()
        if written is not None and (not events or events[0].what != "added"):
            from_file = timeline.written_events(written.rows, self.id, exists=exists)
        if (
            not exists
            and not from_file
            and not events
            and not any(standing.pending for standing in detail.standings)
        ):
            raise NotFoundError("There is no such message (any longer), and no group has it pending.")
        facts = poller.overview.facts
        return {
            "recorded": recorded,
            "came_from": self.values.word("group") if self.values.text("group") else None,
            "filter": kept_of(self.values),
            "events": from_file or events,
            "from_file": bool(from_file),
            "written": written,
            "dropped": link.tape.dropped,
            "debug": facts is not None and facts.debug,
            "key": self.key,
            "id": self.id,
            "detail": detail,
            "is_letter": detail.entry is not None and _has_letters([detail.entry]),
            "now": detail.now,
            "poison": POISON_DELIVERIES,
            "knows_nack": facts is not None and "XNACK" in facts.commands,
        }


class KeysPage(Page):
    """The page of keys: a sample of the keys of all types."""

    template = "keys.html"
    parts = ("keys",)

    def __init__(self, typed: Mapping[str, str]) -> None:
        super().__init__(typed)
        self.find, self.type = self.values.text("find"), self.values.text("type")
        self.cursor = self.values.text("cursor", "0")
        if not re.fullmatch(r"(\d{1,4}:)?\d{1,20}", self.cursor, re.ASCII):
            raise ValueError("a cursor is what SCAN replied, 0 for the beginning")
        self._subject = keys.KeysSubject(self.find.encode(), self.type, self.cursor)
        self.subjects = [self._subject]

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the matching keys found by SCAN from ``cursor`` on."""
        return {
            "detail": await poller.data_of(self._subject),
            "find": self.find,
            "type": self.type,
            "types": keys.TYPES,
            "cursor": self.cursor,
        }


class KeyPage(Page):
    """The page of a key of any type but stream: the start of its value."""

    template = "key.html"
    parts = ("key_value",)

    def __init__(self, typed: Mapping[str, str]) -> None:
        super().__init__(typed)
        self.key = self.values.word("key")
        self.subjects = [keys.KeySubject(self.key)]

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the type of the value and its first items."""
        detail = await poller.data_of(keys.KeySubject(self.key))
        if detail.type == "none":
            raise NotFoundError("There is no such key.")
        return {"key": self.key, "detail": detail}


class ClientsPage(Page):
    """The page of clients: what they wait for, and their commands."""

    template = "clients.html"
    parts = ("clients", "clients_watch", "clients_slow")
    # A recording, if there is one, knows what clients wait for.
    subjects = (clients.ClientsSubject(), timeline.TapeSubject())

    def __init__(self, typed: Mapping[str, str]) -> None:
        super().__init__(typed)
        self.find = self.values.text("find")

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: at most SHOWN clients whose ID, address, name, user or command contains ``find``."""
        detail = await poller.data_of(clients.ClientsSubject())
        await poller.data_of(timeline.TapeSubject())
        wanted = self.find.lower()
        fitting = [
            one
            for one in detail.clients
            if not wanted
            or any(
                wanted in text.lower() for text in (str(one.id), one.address, one.name, one.user, one.command)
            )
        ]
        return {
            "detail": detail,
            "now": detail.now,
            "find": self.find,
            "rows": fitting[: clients.SHOWN],
            "fitting": len(fitting),
            "waits": {number: clients.shown(words) for number, words in timeline.waits(poller.link).items()},
            "names": {one.address: one.name or f"client {one.id}" for one in detail.clients},
            "own": {one.address for one in detail.clients if one.own},
            "blocked": detail.blocked,
        }


class PromptPage(Page):
    """The page with a prompt like that of redis-cli."""

    template = "prompt.html"

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: a new session name, and the database of the prompt."""
        return {"session": secrets.token_urlsafe(12), "place": f"db{poller.link.database}"}


class TimePage(Page):
    """The page of the clock and the faults of a Rillet with debug commands."""

    template = "time.html"
    parts = ("time_clock", "time_faults")
    subjects = (debugging.DebugSubject(),)

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the server's clock and its active faults."""
        facts = poller.overview.facts
        if facts is None or not facts.debug:
            raise NotFoundError(
                "Only a Rillet with debug commands has time and faults: rillet dev, or "
                "rillet --enable-debug-command local."
            )
        detail = await poller.data_of(debugging.DebugSubject())
        return {
            "detail": detail,
            "now": detail.now,
            "steps": debugging.STEPS,
            "recording": poller.link.tape.id,
        }


class JobPage(Page):
    """The page of an action on many entries, under way or ended."""

    template = "job.html"
    parts = ("job",)

    async def context(self, poller: Poller) -> dict[str, Any]:
        """Return the template data: the running or ended action with its progress."""
        job = poller.jobs.get(self.values.text("id"))
        if job is None:
            raise NotFoundError("The result of this action is no longer kept.")
        return {"job": job, "plan": job.plan}


PAGES: Final[dict[str, type[Page]]] = {
    "/": OverviewPage,
    "/stream": StreamPage,
    "/group": GroupPage,
    "/message": MessagePage,
    "/keys": KeysPage,
    "/key": KeyPage,
    "/clients": ClientsPage,
    "/prompt": PromptPage,
    "/time": TimePage,
    "/job": JobPage,
}
