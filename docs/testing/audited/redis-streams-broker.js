// redis-streams-broker: its README's consumer; `most`: the group from the first entry, its own pending messages first, and
// each message dropped when it is acknowledged.
const Redis = require("ioredis");
const { StreamChannelBroker } = require("redis-streams-broker");

const most = process.argv[2] === "most";
const server = new Redis(process.env.REDIS_URL);
const work = new Redis(process.env.REDIS_URL);

async function handle(payloads) {
  for (const each of payloads) {
    try {
      if (!/^\d+$/.test(each.payload.n)) throw new Error("no number");
      await work.sadd("done", each.payload.n);
      await each.markAsRead(most);
    } catch (error) {
      console.error(error);
    }
  }
}

async function main() {
  const broker = new StreamChannelBroker(server, "Queue");
  const group = await (most ? broker.joinConsumerGroup("MyGroup", "0") : broker.joinConsumerGroup("MyGroup"));
  const name = process.env.CONSUMER;
  await (most ? group.subscribe(name, handle, 1000, 10, undefined, true) : group.subscribe(name, handle));
}

main();
