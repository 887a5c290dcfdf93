// What every script shares: the port, deep comparison that throws, one line at the end.
const assert = require("node:assert/strict");

const port = Number(process.argv[2]);

function run(body) {
  setTimeout(() => {
    console.error("still not done after four minutes");
    process.exit(2);
  }, 240_000).unref();
  body().then(
    () => {
      console.log("all as expected");
      process.exit(0);
    },
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

module.exports = { assert, port, run };
