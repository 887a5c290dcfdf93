// A stream consumer that keeps its promises, with node-redis. REDIS_URL says where, CONSUMER who it is.
const { createClient } = require("redis");

const STREAM = "jobs", GROUP = "workers", ME = process.env.CONSUMER;
const LEASE = 30_000; // milliseconds after which a message counts as abandoned
const HEARTBEAT = 1000;
const MOST_DELIVERIES = 5;

const options = { url: process.env.REDIS_URL, socket: { reconnectStrategy: (times) => Math.min(times * 50, 500) } };
const waiting = createClient(options); // a connection of its own: it blocks
const server = createClient(options);
for (const each of [waiting, server]) each.on("error", () => {}); // it connects again, and commands say what fails
let stopping = false;
process.on("SIGTERM", () => (stopping = true));

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function work(fields) {
  if (!/^\d+$/.test(fields.n)) throw new TypeError(`what is ${fields.n}?`);
  await server.sAdd("done", fields.n);
}

async function makeGroup() {
  await server.xGroupCreate(STREAM, GROUP, "0", { MKSTREAM: true }).catch((error) => {
    if (!error.message.startsWith("BUSYGROUP")) throw error;
  });
}

async function read() {
  const found = await waiting.xReadGroup(GROUP, ME, { key: STREAM, id: ">" }, { COUNT: 10, BLOCK: 2000 });
  return found ? found[0].messages : [];
}

async function claim() {
  const { messages } = await server.xAutoClaim(STREAM, GROUP, ME, LEASE, "0-0", { COUNT: 10 });
  if (!messages.length) await forgetTheDead();
  return messages.filter(Boolean);
}

async function forgetTheDead() {
  for (const each of await server.xInfoConsumers(STREAM, GROUP))
    if (each.name !== ME && each.pending === 0 && each.idle > 3_600_000)
      await server.xGroupDelConsumer(STREAM, GROUP, each.name);
}

async function handle(entry, fields) {
  // Keeps the message from being claimed while this worker works on it.
  const heartbeat = setInterval(
    () => server.xClaimJustId(STREAM, GROUP, ME, 0, entry).catch(() => {}), // the next beat tries again
    HEARTBEAT,
  );
  try {
    await work(fields);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const [pending] = await server.xPendingRange(STREAM, GROUP, entry, entry, 1);
    if (pending.deliveriesCounter < MOST_DELIVERIES) return; // it stays pending, and is claimed again later
    await server.xAdd("jobs:dead", "*", { ...fields, error: error.message });
  } finally {
    clearInterval(heartbeat);
  }
  await server.multi().xAck(STREAM, GROUP, entry).xDel(STREAM, entry).exec();
}

async function main() {
  await Promise.all([waiting.connect(), server.connect()]);
  while (!stopping) {
    try {
      let entries = await claim();
      if (!entries.length) entries = await read();
      for (const { id, message } of entries) {
        await handle(id, message);
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
