// A stream consumer that keeps its promises, with ioredis. REDIS_URL says where, CONSUMER who it is.
const Redis = require("ioredis");

const STREAM = "jobs", GROUP = "workers", ME = process.env.CONSUMER;
const LEASE = 30_000; // milliseconds after which a message counts as abandoned
const HEARTBEAT = 1000;
const MOST_DELIVERIES = 5;

const options = { maxRetriesPerRequest: 1, retryStrategy: (times) => Math.min(times * 50, 500) };
const waiting = new Redis(process.env.REDIS_URL, options); // a connection of its own: it blocks
const server = new Redis(process.env.REDIS_URL, options);
for (const each of [waiting, server]) each.on("error", () => {}); // it connects again, and commands say what fails
let stopping = false;
process.on("SIGTERM", () => (stopping = true));

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function fieldsOf(words) {
  const fields = {};
  for (let i = 0; i < words.length; i += 2) fields[words[i]] = words[i + 1];
  return fields;
}

async function work(fields) {
  if (!/^\d+$/.test(fields.n)) throw new TypeError(`what is ${fields.n}?`);
  await server.sadd("done", fields.n);
}

async function makeGroup() {
  await server.xgroup("CREATE", STREAM, GROUP, "0", "MKSTREAM").catch((error) => {
    if (!error.message.startsWith("BUSYGROUP")) throw error;
  });
}

async function read() {
  const found = await waiting.xreadgroup("GROUP", GROUP, ME, "COUNT", 10, "BLOCK", 2000, "STREAMS", STREAM, ">");
  return found ? found[0][1] : [];
}

async function claim() {
  const [, entries] = await server.xautoclaim(STREAM, GROUP, ME, LEASE, "0-0", "COUNT", 10);
  if (!entries.length) await forgetTheDead();
  return entries;
}

async function forgetTheDead() {
  for (const words of await server.xinfo("CONSUMERS", STREAM, GROUP)) {
    const each = fieldsOf(words);
    if (each.name !== ME && each.pending === 0 && each.idle > 3_600_000)
      await server.xgroup("DELCONSUMER", STREAM, GROUP, each.name);
  }
}

async function handle(entry, fields) {
  // Keeps the message from being claimed while this worker works on it.
  const heartbeat = setInterval(
    () => server.xclaim(STREAM, GROUP, ME, 0, entry, "JUSTID").catch(() => {}), // the next beat tries again
    HEARTBEAT,
  );
  try {
    await work(fields);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const [[, , , deliveries]] = await server.xpending(STREAM, GROUP, entry, entry, 1);
    if (deliveries < MOST_DELIVERIES) return; // it stays pending, and is claimed again later
    await server.xadd("jobs:dead", "*", ...Object.entries(fields).flat(), "error", error.message);
  } finally {
    clearInterval(heartbeat);
  }
  await server.multi().xack(STREAM, GROUP, entry).xdel(STREAM, entry).exec();
}

async function main() {
  while (!stopping) {
    try {
      let entries = await claim();
      if (!entries.length) entries = await read();
      for (const [entry, words] of entries) {
        await handle(entry, fieldsOf(words));
        if (stopping) break; // the rest stays pending, and another consumer claims it
      }
    } catch (error) {
      if (error.message.startsWith("NOGROUP")) await makeGroup().catch(() => {});
      else await sleep(100); // READONLY, LOADING, a broken connection …
    }
  }
  process.exit(0);
}

main();
