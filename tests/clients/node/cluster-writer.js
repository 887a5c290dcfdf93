// Writes to streams of a cluster until its input ends, and prints what was acknowledged: one line for each entry.
// Then each stream is read through the same client, and its length printed.
const { run } = require(process.env.RILLET_CHECK);

const [kind, port, streams] = [process.argv[3], Number(process.argv[2]), process.argv[4].split(",")];

async function nodeRedis() {
  const { createCluster } = require("redis");
  const cluster = createCluster({
    rootNodes: [{ url: `redis://127.0.0.1:${port}` }],
    defaults: { socket: { reconnectStrategy: 20 } },
  });
  cluster.on("error", () => {});
  await cluster.connect();
  return {
    add: (stream, n) => cluster.xAdd(stream, "*", { n: `${n}` }),
    length: (stream) => cluster.xLen(stream),
  };
}

async function ioredis() {
  const { Cluster } = require("ioredis");
  const cluster = new Cluster([{ port, host: "127.0.0.1" }], {
    slotsRefreshTimeout: 5000,
    clusterRetryStrategy: () => 20,
  });
  cluster.on("error", () => {});
  return {
    add: (stream, n) => cluster.xadd(stream, "*", "n", `${n}`),
    length: (stream) => cluster.xlen(stream),
  };
}

run(async () => {
  const client = await { nodeRedis, ioredis }[kind]();
  let going = true;
  process.stdin.resume();
  process.stdin.on("end", () => (going = false));
  const lines = [];
  for (let n = 0; going; n++) {
    const stream = streams[n % streams.length];
    try {
      lines.push(`${stream} ${await client.add(stream, n)}`);
      if (n === 0) process.stderr.write("writing\n");
    } catch (error) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
  for (const stream of streams) await client.length(stream);
  if (lines.length) console.log(lines.join("\n"));
});
