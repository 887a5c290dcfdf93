// A worker that writes numbered entries through a sentinel-aware client while masters change.
// It prints the numbers that all replicas had confirmed by WAIT; it ends at the line "stop" on standard input.
const library = process.argv[2];
const port = Number(process.argv[3]);
const password = process.argv[4] || undefined;
const sentinels = [{ host: "127.0.0.1", port }];

async function open() {
  if (library === "ioredis") {
    const Redis = require("ioredis");
    const client = new Redis({
      sentinels, name: "mymaster", password, maxRetriesPerRequest: 1, commandTimeout: 3000,
      sentinelRetryStrategy: () => 20, retryStrategy: () => 20,
    });
    client.on("error", () => {});
    return {
      // One pipeline goes over one connection: WAIT concerns what that connection wrote.
      write: async (number) => (await client.pipeline().xadd("s", "*", "n", number).wait(2, 1000).exec())[1],
      where: async () => Number(/tcp_port:(\d+)/.exec(await client.info("server"))[1]),
    };
  }
  const { createSentinel } = require("redis");
  const client = createSentinel({
    name: "mymaster", sentinelRootNodes: sentinels, nodeClientOptions: { password }, scanInterval: 200,
    passthroughClientErrorEvents: true,
  });
  client.on("error", () => {});
  client.on("client-error", () => {});
  await client.connect();
  return {
    write: async (number) => {
      const both = client.multi().addCommand(false, ["XADD", "s", "*", "n", String(number)]);
      const replies = await both.addCommand(false, ["WAIT", "2", "1000"]).execAsPipeline();
      return [null, replies[1]];
    },
    where: async () => Number(/tcp_port:(\d+)/.exec(await client.sendCommand(false, ["INFO", "server"]))[1]),
  };
}

let stopped = false;
process.stdin.on("data", () => { stopped = true; });
const limit = setTimeout(() => process.exit(2), 240_000);

(async () => {
  const client = await open();
  for (let number = 0; !stopped; number++) {
    try {
      const [error, confirmed] = await client.write(number);
      if (!error && Number(confirmed) === 2) {
        console.log(number);
      }
    } catch (error) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  for (;;) {
    try {
      console.log(`at ${await client.where()}`);
      break;
    } catch (error) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  clearTimeout(limit);
  process.exit(0);
})();
