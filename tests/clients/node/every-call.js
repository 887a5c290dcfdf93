// Every method of node-redis once and more: `compare` writes each result as a line, `newer` judges them here.
const { inspect, isDeepStrictEqual } = require("node:util");
const { createClient, defineScript, RESP_TYPES } = require("redis");
const commands = require("@redis/client/dist/lib/commands").default;
const { assert, port, run } = require(process.env.RILLET_CHECK);
const { compared, newer, leftOut } = require("./calls.js");

const shown = (value) => inspect(value, { depth: null, breakLength: Infinity, compact: true, maxArrayLength: null, maxStringLength: null });
const plain = (value) => JSON.parse(JSON.stringify(value)); // objects of node-redis have no prototype

// The kinds of the values in a result instead of the values.
function kinds(value) {
  if (Array.isArray(value)) return value.map(kinds);
  if (value instanceof Date) return "date";
  if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, kinds(one)]));
  return value === null ? "null" : typeof value;
}

const views = {
  sorted: (value) => [...value].sort(),
  length: (value) => value.length,
  functions: (value) => value.map((library) => ({ ...library, functions: library.functions.sort((a, b) => (a.name < b.name ? -1 : 1)) })),
  kind: kinds,
  near: (value) => Math.round(value / 50) * 50,
  keys: (value) => Object.keys(value).sort(),
  acl: (value) => shown(value).replaceAll(/, 'sanitize-payload'| sanitize-payload/g, ""), // Redis tells it since 7.2
};

async function result(client, call) {
  const [view] = Array.isArray(call) ? ["plain"] : Object.keys(call);
  const [method, ...words] = view === "plain" ? call : call[view];
  const target = view === "binary" ? client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }) : client;
  try {
    const value = await target[method](...words);
    return [method, words, view in views ? views[view](value) : value];
  } catch (error) {
    if (error instanceof TypeError) throw error; // ours or node-redis', not the server's
    return [method, words, `${error.constructor.name}: ${error.message}`];
  }
}

// What is more than one call.
const scenes = {
  async transactions(client, other, tell) {
    tell(await client.multi().set("k", "1").incr("k").hSet("h", { a: "1" }).hGetAll("h").zAdd("z", { value: "m", score: 1.5 }).zScore("z", "m").exec());
    tell(await client.multi().set("k", "x").incr("k").lPush("l", "y").exec().catch((error) => [error.constructor.name, error.message, error.replies?.map(String)]));
    await client.watch("k");
    await other.set("k", "changed");
    tell(await client.multi().set("k", "mine").exec().catch((error) => error.constructor.name));
    tell(await client.get("k"));
    await client.watch("k");
    tell(await client.unwatch());
    tell(await client.multi().get("k").execAsPipeline());
  },
  async pubsub(client, other, tell) {
    const heard = [];
    const listen = (name) => (message, channel) => heard.push([name, channel, String(message)]);
    await other.subscribe(["a", "b"], listen("plain"));
    await other.pSubscribe("a*", listen("pattern"));
    await other.sSubscribe("shard", listen("sharded"));
    tell([await client.publish("a", "1"), await client.publish("abc", "2"), await client.sPublish("shard", "3"), await client.publish("none", "4")]);
    tell([await client.pubSubChannels(), await client.pubSubNumPat(), await client.pubSubNumSub(["a", "none"]), await client.pubSubShardNumSub(["shard"])].map(kinds));
    while (heard.length < 4) await new Promise(setImmediate);
    await other.unsubscribe("a");
    await other.pUnsubscribe();
    await other.sUnsubscribe();
    tell([await client.publish("a", "5"), await client.publish("b", "6")]);
    while (heard.length < 5) await new Promise(setImmediate);
    await other.unsubscribe();
    tell(heard);
    tell(await other.ping());
  },
  async blocking(client, other, tell) {
    const waiting = [
      [(one) => one.blPop("l1", 0), () => client.rPush("l1", ["a", "b"])],
      [(one) => one.brPop(["l2", "l3"], 0), () => client.rPush("l3", "c")],
      [(one) => one.blMove("l4", "l5", "LEFT", "RIGHT", 0), () => client.lPush("l4", "d")],
      [(one) => one.brPopLPush("l6", "l7", 0), () => client.lPush("l6", "e")],
      [(one) => one.blmPop(0, ["l8", "l9"], "RIGHT", { COUNT: 2 }), () => client.rPush("l9", ["f", "g", "h"])],
      [(one) => one.bzPopMin("z1", 0), () => client.zAdd("z1", [{ value: "a", score: 1 }, { value: "b", score: 2 }])],
      [(one) => one.bzPopMax(["z2", "z3"], 0), () => client.zAdd("z3", [{ value: "a", score: 1 }, { value: "b", score: 2 }])],
      [(one) => one.bzmPop(0, ["z4"], "MAX", { COUNT: 2 }), () => client.zAdd("z4", { value: "a", score: 0.5 })],
      [(one) => one.xRead({ key: "x1", id: "$" }, { BLOCK: 0 }), () => client.xAdd("x1", "1-1", { a: "1" })],
    ];
    for (const [wait, wake] of waiting) {
      const woken = wait(other);
      while (!(await client.info("clients")).includes("blocked_clients:1")) {}
      tell([await wake(), await woken]);
    }
    tell((await client.keys("*")).sort());
  },
  async iterators(client, other, tell) {
    const several = async (iterator) => {
      const all = [];
      for await (const some of iterator) all.push(...some);
      return all.map(shown).sort();
    };
    for (let number = 0; number < 300; number++) {
      await client.multi().set(`k:${number}`, "v").hSet("h", `f${number}`, number).sAdd("s", `m${number}`).zAdd("z", { value: `m${number}`, score: number }).execAsPipeline();
    }
    tell(await several(client.scanIterator({ MATCH: "k:*", COUNT: 20 })));
    tell(await several(client.scanIterator({ TYPE: "zset" })));
    tell(await several(client.hScanIterator("h", { COUNT: 20 })));
    tell(await several(client.sScanIterator("s", { MATCH: "m1*" })));
    tell(await several(client.zScanIterator("z", { COUNT: 7 })));
    tell([await client.objectEncoding("h"), await client.objectEncoding("s"), await client.objectEncoding("z")]);
  },
  async scripts(client, other, tell) {
    tell([await client.double("n", 21), await client.double("n", 4)]);
    await client.scriptFlush();
    tell(await client.multi().double("n", 5).get("n").exec());
    await client.functionLoad("#!lua name=kept\nredis.register_function('one', function() return 1 end)");
    const dump = await client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).functionDump();
    await client.functionFlush();
    tell([await client.functionRestore(dump), await client.fCall("one"), kinds(await client.functionStats()), await client.functionFlush()]);
  },
  async copies(client, other, tell) {
    await client.multi().set("string", "text").rPush("list", ["a", "b"]).sAdd("set", "m").hSet("hash", { f: "v" }).zAdd("zset", { value: "m", score: 1.5 }).xAdd("stream", "1-1", { f: "v" }).exec();
    for (const key of (await client.keys("*")).sort()) {
      const dump = await client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).dump(key);
      tell([await client.del(key), await client.restore(key, 0, dump), await client.type(key), await client.objectEncoding(key)]);
    }
    tell([await client.get("string"), await client.lRange("list", 0, -1), await client.sMembers("set"), await client.hGetAll("hash"), await client.zRangeWithScores("zset", 0, -1), await client.xRange("stream", "-", "+")]);
  },
};

const scripts = {
  double: defineScript({
    NUMBER_OF_KEYS: 1,
    SCRIPT: "redis.call('set', KEYS[1], ARGV[1] * 2) return tonumber(redis.call('get', KEYS[1]))",
    parseCommand(parser, key, number) {
      parser.pushKey(key);
      parser.push(number.toString());
    },
    transformReply: (reply) => reply,
  }),
};

async function connected(RESP) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP, scripts });
  client.on("error", (error) => {
    throw error;
  });
  return client.connect();
}

async function compare(RESP) {
  for (const [family, calls] of Object.entries(compared)) {
    const client = await connected(RESP);
    await client.flushAll();
    for (const call of calls) console.log(`${family}: ${(await result(client, call)).map(shown).join(" ")}`);
    await client.close();
  }
  for (const [name, scene] of Object.entries(scenes)) {
    const [client, other] = [await connected(RESP), await connected(RESP)];
    await client.flushAll();
    await scene(client, other, (value) => console.log(`${name}: ${shown(value)}`));
    await other.close();
    await client.close();
  }
}

async function judge(RESP) {
  const client = await connected(RESP);
  const wrong = [];
  await client.flushAll();
  for (const [call, expected] of newer) {
    const [method, words, value] = await result(client, call);
    const right = typeof expected === "function" ? expected(value) : isDeepStrictEqual(plain(value), expected);
    if (!right) wrong.push(`RESP${RESP}: ${method} ${shown(words)} gave ${shown(value)}`);
  }
  await client.close();
  assert.deepEqual(wrong, []);
}

function allAreTried() {
  const called = new Set([...Object.values(compared).flat(), ...newer.map(([call]) => call)].map((call) => (Array.isArray(call) ? call : Object.values(call)[0])[0]));
  const methods = Object.keys(commands).filter((name) => name !== name.toUpperCase());
  const explained = (name) => leftOut.some(([pattern]) => pattern.test(name));
  assert.deepEqual(methods.filter((name) => !called.has(name) && !explained(name)), [], "never called");
  assert.deepEqual(methods.filter((name) => called.has(name) && explained(name)), [], "called and left out");
}

run(async () => {
  allAreTried();
  for (const RESP of [2, 3]) await (process.argv[3] === "newer" ? judge(RESP) : compare(RESP));
});
