# A stream consumer that keeps its promises, with the gem redis. REDIS_URL says where, CONSUMER who it is.
require "redis"

STREAM = "jobs"
GROUP = "workers"
ME = ENV.fetch("CONSUMER")
LEASE = 30_000 # milliseconds after which a message counts as abandoned
HEARTBEAT = 1 # seconds
MOST_DELIVERIES = 5

$server = Redis.new(url: ENV.fetch("REDIS_URL"))
$heart = Redis.new(url: ENV.fetch("REDIS_URL")) # a connection of its own: the other one waits
$stopping = false

def work(fields)
  $server.sadd("done", Integer(fields.fetch("n")))
end

def make_group
  $server.xgroup(:create, STREAM, GROUP, "0", mkstream: true)
rescue Redis::CommandError => e
  raise unless e.message.start_with?("BUSYGROUP")
end

def read
  $server.xreadgroup(GROUP, ME, STREAM, ">", count: 10, block: 2000).fetch(STREAM, [])
end

def claim
  entries = $server.xautoclaim(STREAM, GROUP, ME, LEASE, "0-0", count: 10)["entries"]
  forget_the_dead if entries.empty?
  entries
end

def forget_the_dead
  $server.xinfo(:consumers, STREAM, GROUP).each do |each|
    next if each["name"] == ME || each["pending"] > 0 || each["idle"] < 3_600_000
    $server.xgroup(:delconsumer, STREAM, GROUP, each["name"])
  end
end

def handle(entry, fields)
  heartbeat = Thread.new do
    loop do
      sleep HEARTBEAT
      begin
        $heart.xclaim(STREAM, GROUP, ME, 0, entry, justid: true)
      rescue Redis::BaseError
        next # the next beat tries again
      end
    end
  end
  begin
    work(fields)
  rescue Redis::BaseError
    raise
  rescue StandardError => e
    count = $server.xpending(STREAM, GROUP, entry, entry, 1).first["count"]
    return if count < MOST_DELIVERIES # it stays pending, and is claimed again later
    $server.xadd("jobs:dead", fields.merge("error" => e.message))
  ensure
    heartbeat.kill
    heartbeat.join
  end
  $server.multi do |both|
    both.xack(STREAM, GROUP, entry)
    both.xdel(STREAM, entry)
  end
end

trap("TERM") { $stopping = true }
until $stopping
  begin
    entries = claim
    entries = read if entries.empty?
    entries.each do |entry, fields|
      handle(entry, fields)
      break if $stopping # the rest stays pending, and another consumer claims it
    end
  rescue Redis::CommandError => e
    e.message.start_with?("NOGROUP") ? make_group : sleep(0.1) # READONLY, LOADING …
  rescue Redis::BaseConnectionError
    sleep 0.1
  end
end
