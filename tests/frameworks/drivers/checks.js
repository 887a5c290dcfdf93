// What every driver of node needs: where the server is, assertions, waiting for a state, the word at the end.
const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");

const port = Number(process.env.RILLET_FRAMEWORKS_PORT);
const deadline = 40_000;
const children = new Set();

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// What the condition (a function, async or not) gives once it is true.
async function eventually(condition) {
  const until = Date.now() + deadline;
  for (;;) {
    const value = await condition();
    if (value) {
      return value;
    }
    assert.ok(Date.now() < until, `still ${value}: ${condition}`);
    await sleep(20);
  }
}

// The same script in a process of its own, with a word that says what it is to do there.
function start(word) {
  const child = spawn(process.execPath, [process.argv[1], word], { stdio: ["ignore", 2, 2] });
  children.add(child);
  return child;
}

function leave(status) {
  children.forEach((child) => child.kill("SIGKILL"));
  process.exit(status);
}

// Runs the roles named by the word of `start`, or `main`.
function run(roles) {
  process.on("SIGTERM", () => leave(1));
  const role = process.argv[2] ?? "main";
  roles[role]().then(
    () => {
      if (role === "main") {
        process.stdout.write("all as expected\n", () => leave(0));
      }
    },
    (error) => {
      console.error(error);
      leave(1);
    },
  );
}

module.exports = { assert, eventually, port, run, sleep, start };
