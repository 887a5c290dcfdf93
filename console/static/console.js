// What the pages need beyond htmx and chart.js: copying, the keyboard, and coming back after the server does.
"use strict";

// Live parts are morphed; what a person has chosen or opened stays.
Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name) => name !== "checked" && name !== "open" && name !== "value";

let state = null;
function checkState() {
  const now = document.querySelector("#status [data-state]")?.dataset.state;
  // A page that could not be made while the server was gone is made again.
  if (state && state !== "up" && now === "up" && document.querySelector("[data-gone]")) location.reload();
  document.body.classList.toggle("is-gone", now === "gone");
  state = now;
}

document.addEventListener("part", ({ detail }) => {
  if (detail === "chart_data") drawAll();
  if (detail === "status") checkState();
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.parentElement.querySelector("pre"));
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.querySelector("a"));
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const step = { j: 1, k: -1 }[event.key];
  if (step && rows.length) {
    const row = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step))];
    row.querySelector("a").focus();
    event.preventDefault();
  } else if (event.key === "/") {
    document.querySelector("[data-search]")?.focus();
    event.preventDefault();
  } else if (event.key === "u") {
    const up = document.querySelectorAll("[data-up]");
    if (up.length) location.href = up[up.length - 1].href;
  }
});

// Entries stay chosen while the table changes below them, and from page to page: each is sent once, by its tick or from here.
const elsewhere = document.querySelector("#elsewhere");
const ticks = () => [...document.querySelectorAll("#group_pending input[name=id]")];
const picked = new Set(elsewhere?.querySelector("input").value.split(" ").filter(Boolean));

function tick() {
  for (const box of ticks()) box.checked = picked.has(box.value);
  const shown = new Set(ticks().map((box) => box.value));
  const others = [...picked].filter((id) => !shown.has(id));
  const rest = elsewhere.querySelector("input");
  elsewhere.hidden = rest.disabled = !others.length;
  rest.value = others.join(" ");
  elsewhere.querySelector("b").textContent = others.length.toLocaleString("en");
}

if (elsewhere) {
  const read = () => ticks().forEach((box) => picked[box.checked ? "add" : "delete"](box.value));
  document.querySelector("#picked").addEventListener("change", read);
  document.addEventListener("part", ({ detail }) => { if (detail === "group_pending") tick(); });
  addEventListener("pageshow", read); // a browser that goes back fills in the ticks it remembers
  read();
}

// What was typed before the scripts came, or what the browser has kept of an earlier visit, counts as typed.
addEventListener("load", () => {
  document.querySelectorAll("form.fill").forEach((form) => {
    if ([...form.querySelectorAll("input, textarea")].some((input) => input.value !== input.defaultValue)) htmx.trigger(form, "change");
  });
});

// The same plan once more is not swapped in: a click on Run that leaves a field asks for it, and must find the button it pressed.
let plan;
document.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (detail.target.id !== "plan" || !detail.shouldSwap) return;
  detail.shouldSwap = detail.serverResponse !== plan;
  plan = detail.serverResponse;
});

// The prompt: what was typed, completion by Tab, and a line that is ready for the next command.
const typed = document.querySelector("#typed");
const lines = [];
let place = 0;

function type(text) {
  typed.value = text;
  typed.focus();
  typed.dispatchEvent(new Event("helped"));
}

typed?.addEventListener("keydown", (event) => {
  const completion = document.querySelector("#help [data-complete]");
  if (event.key === "Tab" && !event.shiftKey && completion && typed.value) {
    type(`${completion.dataset.complete} `);
    event.preventDefault();
  }
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (step && lines.length) {
    place = Math.max(0, Math.min(lines.length, place + step));
    type(lines[place] ?? "");
    event.preventDefault();
  }
});

document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.target.id === "line" && typed.value) {
    lines.push(typed.value);
    place = lines.length;
    document.querySelector("#log > .empty")?.remove();
    type("");
  }
});

document.addEventListener("htmx:afterSwap", (event) => {
  const log = event.target.closest("#log");
  if (log) log.scrollTop = log.scrollHeight;
});

for (const [name, text] of [["htmx:sendError", "The console does not answer."], ["htmx:responseError", "The console refused this: load the page again."]]) {
  document.addEventListener(name, () => {
    const note = document.createElement("p");
    note.className = "notice";
    note.textContent = text;
    document.querySelector("#log")?.append(note);
  });
}

document.addEventListener("click", (event) => {
  const completion = event.target.closest("[data-complete]");
  if (completion) type(`${completion.dataset.complete} `);
  event.target.closest("[data-leave]")?.closest(".exchange").remove();
});

checkState();
document.documentElement.dataset.ready = ""; // from here on keys work
