// Live parts. A browser opens six connections to a host at most, so only four pages keep one open, of those that can be
// seen; the others ask every two seconds, and a page that is hidden rests.
"use strict";

const SLOTS = 4;
const ASK_MS = 2000;

const query = document.body.dataset.live;
let quit = () => {};

function show(parts) {
  for (const [name, html] of Object.entries(parts)) {
    const place = document.querySelector(`[data-part="${name}"]`);
    if (!place) continue;
    Idiomorph.morph(place, html, { morphStyle: "innerHTML" });
    htmx.process(place);
    document.dispatchEvent(new CustomEvent("part", { detail: name }));
  }
}

function silent(why = "the console does not answer") {
  show({ status: `<span class="state gone" data-state="gone"><i aria-hidden="true">✕</i> ${why}</span>` });
}

// Follows the stream of events until the page is hidden, or the console refuses it.
function follow() {
  document.documentElement.dataset.follows = "events";
  return new Promise((resolve) => {
    const source = new EventSource(`/live?${query}`);
    document.querySelectorAll("[data-part]").forEach(({ dataset: { part } }) => {
      source.addEventListener(part, (event) => show({ [part]: event.data }));
    });
    source.addEventListener("error", () => {
      silent(); // what comes next, after the browser has connected again, says more
      if (source.readyState === EventSource.CLOSED) resolve();
    });
    quit = () => { source.close(); resolve(); };
  });
}

// Returns whether there was a slot; it is free again once this page has gone.
async function followInSlot() {
  for (let slot = 0; slot < SLOTS && navigator.locks; slot += 1) {
    const had = await navigator.locks.request(`rillet-live-${slot}`, { ifAvailable: true }, async (lock) => {
      if (lock) await follow();
      return Boolean(lock);
    });
    if (had) return true;
  }
  return false;
}

async function ask() {
  document.documentElement.dataset.follows = "questions";
  try {
    const answer = await fetch(`/now?${query}`);
    if (answer.ok) show(await answer.json());
    else silent(`the console ${answer.status < 500 ? "refuses to answer" : "fails to answer"}: ${answer.status}`);
  } catch {
    silent();
  }
}

function seen() {
  return new Promise((resolve) => {
    const look = () => { if (!document.hidden) { document.removeEventListener("visibilitychange", look); resolve(); } };
    document.addEventListener("visibilitychange", look);
    look();
  });
}

async function live() {
  for (;;) {
    await seen();
    if (!(await followInSlot())) await ask();
    await new Promise((resolve) => { setTimeout(resolve, document.hidden ? 0 : ASK_MS); });
  }
}

document.addEventListener("visibilitychange", () => { if (document.hidden) quit(); });
if (query) live();
