// What a client does with one XADD that a fault hits: node faults.js PORT ioredis|redis JSON-OF-FAULTS
const { assert, port, run } = require(process.env.RILLET_CHECK);

const ways = {
  ioredis: async () => {
    const Redis = require("ioredis");
    // Three times, then the command fails; a command without a reply fails after 300 ms.
    const options = { port, host: "127.0.0.1", maxRetriesPerRequest: 3, retryStrategy: () => 1, commandTimeout: 300 };
    const client = new Redis(options);
    client.on("error", () => {});
    await client.ping();
    return { xadd: () => client.xadd("s", "*", "f", "v"), end: () => client.disconnect() };
  },
  redis: async () => {
    const { createClient } = require("redis");
    const client = createClient({
      url: `redis://127.0.0.1:${port}`,
      socket: { reconnectStrategy: () => 1, socketTimeout: 300 },
      commandOptions: { timeout: 300 },
    });
    client.on("error", () => {});
    await client.connect();
    return { xadd: () => client.xAdd("s", "*", { f: "v" }), end: () => client.destroy() };
  },
};

run(async () => {
  const library = process.argv[3];
  const control = new (require("ioredis"))({ port, host: "127.0.0.1" });
  await control.call("DEBUG", "CONTROL");
  for (const [kind, words] of Object.entries(JSON.parse(process.argv[4]))) {
    await control.del("s");
    const client = await ways[library]();
    const id = await control.call("DEBUG", "FAULT", "ADD", "COMMAND", "XADD", "FIRST", "1", ...words);
    const outcome = await client.xadd().then(
      () => "ok",
      (error) => (error.message.match(/^[A-Z]+(?= )/) ? "error" : error.message.replace(/timeout timeout.*/, "timeout")),
    );
    const [[, , fitted, hit]] = await control.call("DEBUG", "FAULT", "LIST", id);
    assert.equal(hit, 1, kind);
    const entries = await control.xlen("s");
    client.end();
    await control.call("DEBUG", "FAULT", "CLEAR", id);
    console.log(JSON.stringify([kind, fitted, entries, outcome]));
  }
  control.disconnect();
});
