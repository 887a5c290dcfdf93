const Redis = require("ioredis");
const { assert, port, run } = require(process.env.RILLET_CHECK);

// RESP3 answers XREAD with a map; ioredis gives it as it comes: an array, an object or a Map.
function entries(reply, key) {
  if (Array.isArray(reply)) {
    return reply[0] === key ? reply[1] : reply.find((pair) => pair[0] === key)[1];
  }
  return reply instanceof Map ? reply.get(key) : reply[key];
}

run(async () => {
  for (const protocol of [2, 3]) {
    const client = new Redis({ port, host: "127.0.0.1", protocol });
    client.on("error", (error) => {
      throw error;
    });
    await client.flushall();
    assert.equal(await client.ping(), "PONG");
    assert.equal(await client.xadd("s", "1-1", "name", "a"), "1-1");
    assert.equal(await client.xadd("s", "2-1", "name", "b"), "2-1");
    assert.equal(await client.xgroup("CREATE", "s", "g", "0"), "OK");
    await assert.rejects(client.xgroup("CREATE", "s", "g", "0"), /BUSYGROUP/);
    const read = await client.xreadgroup("GROUP", "g", "alice", "COUNT", 10, "STREAMS", "s", ">");
    assert.deepEqual(entries(read, "s").map((entry) => entry[0]), ["1-1", "2-1"]);
    assert.deepEqual(await client.xclaim("s", "g", "bob", 0, "1-1"), [["1-1", ["name", "a"]]]);
    assert.deepEqual(await client.xclaim("s", "g", "bob", 0, "1-1", "JUSTID"), ["1-1"]);
    const auto = await client.xautoclaim("s", "g", "carol", 0, "0-0");
    assert.equal(auto[0], "0-0");
    assert.deepEqual(auto[1].map((entry) => entry[0]), ["1-1", "2-1"]);
    assert.deepEqual(await client.xpending("s", "g"), [2, "1-1", "2-1", [["carol", "2"]]]);
    assert.equal(await client.xack("s", "g", "1-1", "2-1"), 2);

    const other = client.duplicate();
    const waiting = other.xread("BLOCK", 30000, "STREAMS", "s", "$");
    while (!(await client.info("clients")).includes("blocked_clients:1")) {}
    await client.xadd("s", "3-1", "name", "c");
    assert.deepEqual(entries(await waiting, "s"), [["3-1", ["name", "c"]]]);
    assert.equal(await other.xread("BLOCK", 5, "STREAMS", "s", "$"), null);

    const heard = new Promise((resolve) => other.on("message", (channel, message) => resolve([channel, message])));
    await other.subscribe("news");
    await client.publish("news", "hello");
    assert.deepEqual(await heard, ["news", "hello"]);

    const replies = await client.multi().xadd("t", "1-1", "a", "b").xlen("t").exec();
    assert.deepEqual(replies, [[null, "1-1"], [null, 1]]);
    other.disconnect();
    client.disconnect();
  }
});
