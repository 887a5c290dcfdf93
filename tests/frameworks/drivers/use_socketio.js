// Socket.IO over its streams adapter: two servers, rooms, acknowledgements, server to server, recovery of a connection.
const { createServer } = require("node:http");
const { createAdapter } = require("@socket.io/redis-streams-adapter");
const Redis = require("ioredis");
const { createClient } = require("redis");
const { Server } = require("socket.io");
const { io: connect } = require("socket.io-client");
const { assert, eventually, port, run } = require("./checks.js");

async function server(redis, streamName) {
  const http = createServer();
  const io = new Server(http, {
    adapter: createAdapter(redis, { streamName, blockTimeInMs: 500, maxLen: 1000 }),
    connectionStateRecovery: { maxDisconnectionDuration: 60_000 },
  });
  io.on("connection", (socket) => {
    socket.on("join", async (room, done) => {
      await socket.join(room);
      done();
    });
    socket.emit("welcome", socket.recovered);
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  return { io, http, url: `http://127.0.0.1:${http.address().port}` };
}

async function client(url, log, name) {
  const socket = connect(url, { transports: ["websocket"], reconnectionDelay: 50 });
  socket.on("news", (text) => log.push(`${name} ${text}`));
  socket.on("question", (done) => done(name));
  await new Promise((resolve) => socket.once("welcome", resolve));
  return socket;
}

const join = (socket, room) => new Promise((resolve) => socket.emit("join", room, resolve));

async function cluster(redisHere, redisThere, streamName) {
  const log = [];
  const here = await server(redisHere, streamName);
  const there = await server(redisThere, streamName);
  const one = await client(here.url, log, "one");
  const two = await client(there.url, log, "two");
  await eventually(async () => (await here.io.fetchSockets()).length === 2);

  here.io.emit("news", "to all");
  await eventually(() => log.length === 2);
  assert.deepEqual(log.splice(0).sort(), ["one to all", "two to all"]);

  await join(two, "room");
  here.io.to("room").emit("news", "to the room");
  here.io.except("room").emit("news", "to the others");
  here.io.to("room").emit("news", Buffer.from("bytes"));
  await eventually(() => log.length === 3);
  assert.deepEqual(log.splice(0).sort(), ["one to the others", "two bytes", "two to the room"]);

  assert.deepEqual((await here.io.timeout(20_000).emitWithAck("question")).sort(), ["one", "two"]);
  there.io.on("sum", (a, b, done) => done(a + b));
  assert.deepEqual(await here.io.serverSideEmitWithAck("sum", 1, 2), [3]);

  here.io.in("room").socketsJoin("second room");
  const rooms = () => there.io.of("/").adapter.sids.get(two.id);
  await eventually(() => rooms().has("second room"));

  // The connection breaks; what was sent meanwhile arrives after it, and the rooms are those from before.
  let recovered;
  two.on("welcome", (told) => {
    recovered = told;
  });
  two.io.engine.close();
  await eventually(() => !two.connected);
  here.io.to("room").emit("news", "while away");
  await eventually(() => recovered !== undefined);
  assert.equal(recovered, true);
  await eventually(() => log.length === 1);
  assert.deepEqual(log.splice(0), ["two while away"]);
  assert.ok(rooms().has("second room"));

  one.close();
  two.close();
  await Promise.all([here.io.close(), there.io.close()]);
}

async function main() {
  const connection = { host: "127.0.0.1", port };
  await cluster(new Redis(connection), new Redis(connection), "with-ioredis");
  const clients = [1, 2].map(() => createClient({ socket: connection }));
  await Promise.all(clients.map((each) => each.connect()));
  await cluster(...clients, "with-node-redis");
}

run({ main });
