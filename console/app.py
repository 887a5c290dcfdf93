"""The application: pages, their live parts, and actions that show their commands before running them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from redis.exceptions import RedisError
from starlette.applications import Starlette
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from . import api, timeline
from .actions import ACTIONS, Action, Outcome, Plan, plan
from .clients import Watch
from .connection import GoneError, Link
from .connection_advice import next_step
from .jobs import Jobs
from .pages import PAGES, NotFoundError, Page
from .poller import Poller, UnreadableError
from .prompt import Prompt
from .read_only import ReadOnlyError
from .render import HERE, environment
from .security import COOKIE, OPEN_PLACES, Guard, TooManyError, address_of, too_many
from .style import STATIC
from .values import Values

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp


FORM_BYTES: Final = 1 << 20
STOP_SECONDS: Final = 3.0  # for a server that does not answer any more
KEPT_OUTCOMES: Final = 100


class AddressError(Exception):
    """The address of a page lacks a required name, or has one that cannot be parsed."""


class FormError(Exception):
    """A form that is too big or does not come from a page of this console."""


class Console:
    """The web application of the console: the state that all requests share.

    ``read_only``: None: read-only unless the server is a Rillet with debug commands.
    """

    def __init__(self, poller: Poller, guard: Guard, *, read_only: bool | None = None) -> None:
        self.poller = poller
        self.guard = guard
        self._read_only = read_only
        self._templates = environment()
        self._outcomes: OrderedDict[str, tuple[Plan, Outcome]] = OrderedDict()
        self._ending = False
        self.watch = Watch()
        self._jobs = Jobs(poller.jobs, poller.changed)
        self.prompt = Prompt(self.link)

    @property
    def link(self) -> Link:
        """The connection that the poller and the actions share."""
        return self.poller.link

    @property
    def read_only(self) -> bool:
        """Whether actions only show their commands and send none."""
        if self._read_only is not None:
            return self._read_only
        facts = self.poller.overview.facts
        return facts is None or not facts.debug

    def end_live(self) -> None:
        """End the live connections of all open pages; otherwise they would last as long as the browser."""
        self._ending = True
        self.poller.release()

    def application(self) -> Starlette:
        """Return the ASGI application."""
        paths = [Route(path, self._page) for path in PAGES]
        app = Starlette(
            routes=[
                *paths,
                Route("/live", self._live),
                Route("/now", self._now),
                Route("/api/{path:path}", self._api),
                Route("/watch", self._watch, methods=["POST"]),
                Route("/prompt", self._ask, methods=["POST"]),
                Route("/prompt/help", self._help, methods=["POST"]),
                Route("/act/{name}", self._action, methods=["GET"]),
                Route("/act/{name}", self._run, methods=["POST"]),
                Route("/done/{name}", self._done),
                Route("/job/stop", self._stop_job, methods=["POST"]),
                Route("/login", self._login, methods=["GET", "POST"]),
                Mount("/static/shared", StaticFiles(directory=STATIC)),
                Mount("/static", StaticFiles(directory=HERE / "static")),
            ],
            lifespan=self._lifespan,
            exception_handlers={
                404: self._no_such_page,
                GoneError: self._unreadable,
                NotFoundError: self._page_of(404, "Not there"),
                UnreadableError: self._page_of(500, "Not readable", "{}. The log of the console says more."),
                RedisError: self._page_of(502, "The server replied with an error"),
                AddressError: self._page_of(400, "This address says too little"),
                FormError: self._foreign_form,
                ReadOnlyError: self._foreign_form,
            },
        )
        app.add_middleware(_guarded, guard=self.guard)
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.poller.run())
        tidying = asyncio.ensure_future(self._close_idle_prompts())
        try:
            yield
        finally:
            tidying.cancel()
            self.poller.stop()
            await asyncio.wait([task], timeout=STOP_SECONDS)
            task.cancel()
            # The recording ends with a server that is gone.
            with contextlib.suppress(TimeoutError, GoneError):
                async with asyncio.timeout(STOP_SECONDS):
                    await timeline.end(self.link.actor)
            await self._jobs.stop()
            await self.watch.stop()
            await self.prompt.close()
            await self.link.close()

    async def _close_idle_prompts(self) -> None:
        while True:
            await self.poller.ticked()
            await self.prompt.close_idle()

    def _server(self) -> str:
        facts = self.poller.overview.facts
        return f"{facts.kind} {facts.version}" if facts else ""

    def _actor(self) -> Link:
        """Return the one connection that may change data. Raises ReadOnlyError: nothing may be changed."""
        if self.read_only:
            raise ReadOnlyError(
                "The console is read-only: copy the command, or start it with --allow-writes."
            )
        return self.link.actor

    def _common(self) -> dict[str, Any]:
        return {
            "overview": self.poller.overview,
            "watch": self.watch,
            "page_path": "",
            "address": self.link.shown,
            "read_only": self.read_only,
            "csrf": self.guard.csrf,
            "live": "",
            "asks_for_token": self.guard.asks_for_token,
        }

    def _render(self, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        page = self._templates.get_template(template)
        return HTMLResponse(page.render({**self._common(), **context}), status)

    async def _page(self, request: Request) -> Response:
        page = _made(request.url.path, typed(request))
        await self.poller.freshen()
        overview = self.poller.overview
        if overview.gone and not request.url.path.startswith("/job"):
            raise GoneError(overview.gone)
        context = await page.whole_context(self.poller)
        live = f"{request.url.query}&page={request.url.path}"  # last, so that no other counts
        return self._render(page.template, **{**context, "live": live, "page_path": request.url.path})

    async def _live(self, request: Request) -> Response:
        query = typed(request)
        page = _made(query.get("page", ""), query)
        return StreamingResponse(self._events(page), media_type="text/event-stream")

    async def _now(self, request: Request) -> Response:
        """Send the live parts once, to a browser that has no connection left for a live one."""
        query = typed(request)
        page = _made(query.get("page", ""), query)
        await self.poller.freshen()
        return JSONResponse(await self._parts(page))

    async def _api(self, request: Request) -> Response:
        """Answer a script in JSON; errors, too."""
        await self.poller.freshen()
        try:
            return JSONResponse(await api.answer(self.poller, request.path_params["path"], typed(request)))
        except GoneError as error:
            step = next_step(str(error), self.link.shown)
            return JSONResponse({"error": str(error), "next_step": step}, 503)
        except api.AbsentError as error:
            return JSONResponse({"error": str(error)}, 404)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        except RedisError as error:
            return JSONResponse({"error": str(error)}, 502)

    async def _events(self, page: Page) -> AsyncIterator[str]:
        """Send the changed parts of a page at each tick; a slow browser misses ticks."""
        sent: dict[str, str] = {}
        async with self.poller.viewing(page.subjects):
            while not self._ending:
                for name, html in (await self._parts(page)).items():
                    if sent.get(name) != html:
                        sent[name] = html
                        yield _event(name, html)
                await self.poller.ticked()

    async def _parts(self, page: Page) -> dict[str, str]:
        common = self._common()
        parts = {"status": self._part("status", common)}
        if self.poller.overview.gone or self.poller.overview.facts is None:
            return parts
        try:
            context = {**common, **await page.context(self.poller)}
        except GoneError:
            return parts
        except (NotFoundError, RedisError, UnreadableError) as error:
            return {**parts, "notice": self._part("notice", {**common, "notice": str(error)})}
        parts["notice"] = self._part("notice", {**common, "notice": ""})
        return parts | {name: self._part(name, context) for name in page.parts}

    def _part(self, name: str, context: Mapping[str, Any]) -> str:
        return self._templates.get_template(f"parts/{name}.html").render(context)

    async def _action(self, request: Request) -> Response:
        action = ACTIONS.get(request.path_params["name"])
        if action is None:
            raise NotFoundError("There is no such action.")
        await self.poller.freshen()
        made = plan(action, await self._begun(action, typed(request)))
        part = "parts/plan.html" if request.headers.get("hx-request") else "action.html"
        return self._render(
            part,
            plan=made,
            action=action,
            consumers=await self._consumers(made),
            facts=self.poller.overview.facts,
        )

    async def _begun(self, action: Action, words: dict[str, str]) -> dict[str, str]:
        """Return the typed values; if nothing was typed yet, add the form's initial values."""
        if action.begin is None or any(one.name in words for one in action.fields):
            return words
        try:
            return {**await action.begin(self.link, Values(words)), **words}
        except ValueError:  # the plan says what is missing in the address
            return words

    async def _consumers(self, made: Plan) -> list[bytes]:
        """Return names to suggest: groups of the streams, consumers of the group in question."""
        if not any(one.suggest == "consumers" for one in made.action.fields):
            return []
        page = _made("/group", made.typed)
        detail = await self.poller.data_of(page.subjects[0])
        return [lane.consumer.name for lane in detail.lanes]

    async def _run(self, request: Request) -> Response:
        form = await self._form(request)
        action = ACTIONS.get(request.path_params["name"])
        if action is None:
            raise NotFoundError("There is no such action.")
        actor = self._actor()
        made = plan(action, form)
        if made.problem or form.get("shown", "").replace("\r\n", "\n") != made.text:
            # The commands run exactly as shown.
            return self._render(
                "action.html", 409, plan=made, action=action, consumers=[], facts=self.poller.overview.facts
            )
        job = await self._jobs.start(actor, made)
        outcome = job.outcome
        if outcome is None:
            return RedirectResponse(f"/job?id={job.id}", 303)
        if outcome.good and action.back:
            return RedirectResponse(action.back, 303)
        name = secrets.token_urlsafe(12)
        self._outcomes[name] = (made, outcome)
        while len(self._outcomes) > KEPT_OUTCOMES:
            self._outcomes.popitem(last=False)
        return RedirectResponse(f"/done/{name}", 303)

    async def _done(self, request: Request) -> Response:
        kept = self._outcomes.get(request.path_params["name"])
        if kept is None:
            raise NotFoundError("The result of this action is no longer kept.")
        return self._render("done.html", plan=kept[0], outcome=kept[1])

    async def _stop_job(self, request: Request) -> Response:
        form = await self._form(request)
        job = self.poller.jobs.get(form.get("id", ""))
        if job is None:
            raise NotFoundError("The result of this action is no longer kept.")
        job.progress.stopped = True
        return RedirectResponse(f"/job?id={job.id}", 303)

    async def _watch(self, request: Request) -> Response:
        """Start or stop MONITOR. It changes nothing, so a read-only console has it, too."""
        form = await self._form(request)
        await (self.watch.start(self.link) if form.get("do") == "start" else self.watch.stop())
        return RedirectResponse("/clients", 303)

    async def _ask(self, request: Request) -> Response:
        form = await self._form(request)
        line, session = form.get("line", ""), form.get("session", "")
        exchange = await self.prompt.run(session, line, read_only=self.read_only, sure=form.get("sure", ""))
        if exchange.changes:
            self.poller.changed()
        context: dict[str, Any] = {"exchange": exchange, "session": session, "page_path": "/prompt"}
        part = "parts/exchange.html" if request.headers.get("hx-request") else "prompt.html"
        return self._render(part, **context)

    async def _help(self, request: Request) -> Response:
        form = await self._form(request)
        return self._render(
            "parts/help.html", help=await self.prompt.help(form.get("line", ""), self._server())
        )

    async def _form(self, request: Request) -> dict[str, str]:
        form = await _posted(request)
        if not self.guard.is_ours(form.get("csrf", "")):
            raise FormError(
                "This form is not from a page of the console as it runs now. Go back and load it again."
            )
        return form

    async def _login(self, request: Request) -> Response:
        if not self.guard.asks_for_token:
            return RedirectResponse("/", 303)
        wrong = False
        if request.method == "POST":
            given = (await _posted(request)).get("token", "")
            try:
                fits = self.guard.accepts(given, address_of(request.scope))
            except TooManyError:
                return too_many()
            if fits:
                answer = RedirectResponse("/", 303)
                answer.set_cookie(
                    COOKIE,
                    self.guard.cookie(),
                    httponly=True,
                    samesite="strict",
                    secure=request.url.scheme == "https",
                )
                return answer
            wrong = True
            await asyncio.sleep(0.3)  # guessing takes its time
        page = self._templates.get_template("login.html")
        return HTMLResponse(page.render(wrong=wrong), 401 if wrong else 200)

    def _error(self, status: int, title: str, text: str) -> Response:
        return self._render("error.html", status, title=title, text=text, step="")

    async def _no_such_page(self, request: Request, __: Exception) -> Response:
        # Asked for without a token, perhaps: no facts of the server.
        if request.url.path.startswith(OPEN_PLACES):
            return PlainTextResponse("No such page\n", 404)
        return self._error(404, "No such page", "The console has no page at this address.")

    async def _unreadable(self, request: Request, error: Exception) -> Response:
        """Show why the server cannot be read, and what to do; the page reloads when the server can be read."""
        return self._render(
            "error.html",
            503,
            title="The server cannot be read" if self.poller.overview.facts is None else "The server is gone",
            text=f"{error}. This page comes back when the server does.",
            step=next_step(str(error), self.link.shown),
            live="page=/" if request.method == "GET" else "",
        )

    def _page_of(self, status: int, title: str, text: str = "{}") -> Callable[..., Awaitable[Response]]:
        """Return a handler that answers an error with a page; ``text`` has a placeholder for the error's text."""

        async def answer(_: Request, error: Exception) -> Response:
            return self._error(status, title, text.format(error))

        return answer

    async def _foreign_form(self, request: Request, error: Exception) -> Response:
        if request.url.path.startswith(OPEN_PLACES):
            return PlainTextResponse("Not done\n", 403)
        return self._error(403, "Not done", str(error))


def _guarded(app: ASGIApp, guard: Guard) -> Guard:
    """Put the guard around the application, in the form in which Starlette adds its layers."""
    guard.app = app
    return guard


def _event(name: str, html: str) -> str:
    """Encode a server-sent event; each of its lines needs the prefix."""
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"event: {name}\n" + (lines or "data:\n") + "\n"


def _made(path: str, query: Mapping[str, str]) -> Page:
    made = PAGES.get(path)
    if made is None:
        raise NotFoundError("There is no such page.")
    try:
        return made(query)
    except ValueError as error:
        raise AddressError(str(error)) from error


def typed(request: Request) -> dict[str, str]:
    """Return the parameters of an address; repeated ones, such as the IDs of a table, are joined by spaces."""
    return _joined(request.query_params.multi_items())


def _joined(items: list[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in items:
        found[name] = f"{found[name]} {text}" if name == "id" and name in found else text
    return found


async def _posted(request: Request) -> dict[str, str]:
    """Return a posted form. Raises FormError: it is too big, or of another content type."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise FormError("A form of another type is not taken.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > FORM_BYTES:
            raise FormError("A form of this size is not taken.")
    return _joined(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
