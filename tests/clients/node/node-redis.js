const { createClient } = require("redis");
const { assert, port, run } = require(process.env.RILLET_CHECK);

run(async () => {
  for (const RESP of [2, 3]) {
    const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP });
    client.on("error", (error) => {
      throw error;
    });
    await client.connect();
    await client.flushAll();
    assert.equal(await client.ping(), "PONG");
    assert.equal(await client.xAdd("s", "1-1", { name: "a" }), "1-1");
    assert.equal(await client.xAdd("s", "2-1", { name: "b" }), "2-1");
    assert.equal(await client.xGroupCreate("s", "g", "0"), "OK");
    await assert.rejects(client.xGroupCreate("s", "g", "0"), /BUSYGROUP/);
    const read = await client.xReadGroup("g", "alice", { key: "s", id: ">" }, { COUNT: 10 });
    const messages = Array.isArray(read) ? read[0].messages : read.s;
    assert.deepEqual(messages.map((entry) => entry.id), ["1-1", "2-1"]);
    assert.equal(messages[0].message.name, "a");
    const claimed = await client.xClaim("s", "g", "bob", 0, "1-1");
    assert.equal(claimed[0].id, "1-1");
    assert.equal(claimed[0].message.name, "a");
    assert.deepEqual(await client.xClaimJustId("s", "g", "bob", 0, ["1-1"]), ["1-1"]);
    const auto = await client.xAutoClaim("s", "g", "carol", 0, "0-0");
    assert.equal(auto.nextId, "0-0");
    assert.deepEqual(auto.messages.map((entry) => entry.id), ["1-1", "2-1"]);
    const pending = await client.xPending("s", "g");
    assert.equal(pending.pending, 2);
    assert.deepEqual(pending.consumers.map((one) => [one.name, Number(one.deliveriesCounter)]), [["carol", 2]]);
    assert.equal((await client.xPendingRange("s", "g", "-", "+", 10)).length, 2);
    assert.equal(await client.xAck("s", "g", ["1-1", "2-1"]), 2);
    assert.equal((await client.xInfoStream("s")).length, 2);
    assert.equal((await client.xInfoGroups("s"))[0].name, "g");
    assert.equal((await client.xInfoConsumers("s", "g")).length, 3);
    assert.equal((await client.xRange("s", "-", "+")).length, 2);

    const other = client.duplicate();
    await other.connect();
    const waiting = other.xRead({ key: "s", id: "$" }, { BLOCK: 30000 });
    while (!(await client.info("clients")).includes("blocked_clients:1")) {}
    await client.xAdd("s", "3-1", { name: "c" });
    const woken = await waiting;
    assert.equal((Array.isArray(woken) ? woken[0].messages : woken.s)[0].id, "3-1");
    assert.equal(await other.xRead({ key: "s", id: "$" }, { BLOCK: 5 }), null);

    const heard = new Promise((resolve) => {
      other.subscribe("news", (message, channel) => resolve([channel, message])).then(() => client.publish("news", "hello"));
    });
    assert.deepEqual(await heard, ["news", "hello"]);

    const replies = await client.multi().xAdd("t", "1-1", { a: "b" }).xLen("t").exec();
    assert.deepEqual(replies, ["1-1", 1]);
    await other.close();
    await client.close();
  }
});
