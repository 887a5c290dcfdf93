// BullMQ: results, priorities, delays, retries, flows, schedulers, events, rate limits, and a worker that was killed.
const { FlowProducer, Queue, QueueEvents, Worker, UnrecoverableError } = require("bullmq");
const Redis = require("ioredis");
const { assert, eventually, port, run, start } = require("./checks.js");

const connection = { host: "127.0.0.1", port };
const blocking = { ...connection, maxRetriesPerRequest: null };

async function hang() {
  const redis = new Redis(connection);
  new Worker("dangerous", async () => {
    await redis.incr("hanging");
    await new Promise(() => setInterval(() => {}, 1000));
  }, { connection: blocking, lockDuration: 500, stalledInterval: 200 });
}

async function results() {
  const queue = new Queue("plain", { connection });
  const events = new QueueEvents("plain", { connection: blocking });
  await events.waitUntilReady();
  const told = [];
  events.on("completed", ({ jobId }) => told.push(jobId));
  const order = [];
  let tries = 0;

  const late = await queue.add("double", { number: 21 }, { delay: 300 });
  const jobs = await queue.addBulk(
    Array.from({ length: 50 }, (_, number) => ({ name: "double", data: { number }, opts: { jobId: `d${number}` } })),
  );
  assert.equal((await queue.add("double", { number: 999 }, { jobId: "d1" })).id, "d1");
  const low = await queue.add("note", { word: "low" }, { priority: 9 });
  const high = await queue.add("note", { word: "high" }, { priority: 1 });
  const retried = await queue.add("fail twice", {}, { attempts: 3, backoff: { type: "fixed", delay: 20 } });
  const failing = await queue.add("fail", { padding: "x".repeat(5000) });
  assert.deepEqual(
    await queue.getJobCounts("waiting", "prioritized", "delayed"),
    { waiting: 52, prioritized: 2, delayed: 1 },
  );
  await queue.pause();
  assert.equal(await queue.isPaused(), true);
  await queue.resume();

  const worker = new Worker("plain", async (job) => {
    if (job.name === "note") {
      order.push(job.data.word);
    } else if (job.name === "fail twice") {
      tries += 1;
      if (tries < 3) {
        throw new Error("not yet");
      }
      await job.updateProgress(100);
      await job.log("a line");
      return "third time";
    } else if (job.name === "fail") {
      throw new UnrecoverableError("as asked");
    }
    return job.data.number * 2;
  }, { connection: blocking, concurrency: 1 });
  const doubled = await Promise.all(jobs.map((job) => job.waitUntilFinished(events)));
  assert.deepEqual(doubled, Array.from({ length: 50 }, (_, number) => number * 2));
  assert.equal(await late.waitUntilFinished(events), 42);
  assert.equal(await retried.waitUntilFinished(events), "third time");
  await assert.rejects(failing.waitUntilFinished(events), /as asked/);
  await Promise.all([low, high].map((job) => job.waitUntilFinished(events)));
  assert.deepEqual(order, ["high", "low"]);
  assert.deepEqual((await queue.getJobLogs(retried.id)).logs, ["a line"]);
  assert.equal((await queue.getJob(retried.id)).progress, 100);
  assert.equal(await (await queue.getJob(failing.id)).getState(), "failed");
  assert.equal(await queue.getFailedCount(), 1);
  await eventually(() => told.length === 54);
  assert.equal((await queue.clean(0, 1000, "completed")).length, 54);

  await queue.upsertJobScheduler("ticking", { every: 100 }, { name: "note", data: { word: "tick" } });
  await eventually(() => order.filter((word) => word === "tick").length >= 3);
  assert.equal((await queue.getJobSchedulers()).length, 1);
  assert.equal(await queue.removeJobScheduler("ticking"), true);
  await worker.close();
  await queue.obliterate({ force: true });
  const redis = new Redis(connection);
  assert.deepEqual(await redis.keys("bull:plain:*"), []);
  redis.disconnect();
  await events.close();
  await queue.close();
}

async function flows() {
  const producer = new FlowProducer({ connection });
  const child = (number) => ({ name: "part", queueName: "parts", data: { number } });
  const flow = await producer.add({ name: "whole", queueName: "wholes", children: [1, 2, 3].map(child) });
  const parts = new Worker("parts", async (job) => job.data.number, { connection: blocking });
  const wholes = new Worker(
    "wholes",
    async (job) => Object.values(await job.getChildrenValues()).reduce((one, other) => one + other),
    { connection: blocking, limiter: { max: 10, duration: 100 } },
  );
  const events = new QueueEvents("wholes", { connection: blocking });
  assert.equal(await flow.job.waitUntilFinished(events), 6);
  await Promise.all([parts.close(), wholes.close(), events.close(), producer.close()]);
}

async function crash() {
  const redis = new Redis(connection);
  const queue = new Queue("dangerous", { connection });
  const events = new QueueEvents("dangerous", { connection: blocking });
  await events.waitUntilReady();
  const stalled = [];
  events.on("stalled", ({ jobId }) => stalled.push(jobId));
  const job = await queue.add("hang once", {});
  const killed = start("hang");
  await eventually(() => redis.get("hanging"));
  killed.kill("SIGKILL");
  assert.equal(await job.getState(), "active");
  const worker = new Worker("dangerous", async () => "at last", { connection: blocking, stalledInterval: 200 });
  assert.equal(await job.waitUntilFinished(events), "at last");
  await eventually(() => stalled.length > 0);
  assert.deepEqual(stalled, [job.id]);
  await Promise.all([worker.close(), events.close()]);
  await queue.close();
  redis.disconnect();
}

async function main() {
  await results();
  await flows();
  await crash();
}

run({ main, hang });
