--[[
  Adds a message to a conversation's inbox unless its id was seen within the dedupe window.
  KEYS  1 meta  2 inbox  3 seen  4 seen-order  5 pending  6 activity
  ARGV  1 message name  2 inbox entry  3 conversation name  4 dedupe window in ms  5 signal channel
        6 most messages that may wait, 0 any number
  Returns 0 added, 1 duplicate, 2 as many wait already. Publishes `arrived` when a live lease is held.
]]
local message, name, window = ARGV[1], ARGV[3], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- What left the window goes, oldest first; a few per message keep up with what comes in.
for _ = 1, 100 do
  local oldest = redis.call('LINDEX', KEYS[4], 0)
  if not oldest then break end
  local value = redis.call('HGET', KEYS[3], oldest)
  if value and tonumber(string.match(value, '^%d+')) > now then break end
  redis.call('LPOP', KEYS[4])
  redis.call('HDEL', KEYS[3], oldest)
end

local value = redis.call('HGET', KEYS[3], message)
if value and tonumber(string.match(value, '^%d+')) > now then return 1 end
local most = tonumber(ARGV[6])
if most > 0 and redis.call('LLEN', KEYS[2]) >= most then return 2 end

redis.call('HSET', KEYS[3], message, (now + window) .. ' q')
if not value then redis.call('RPUSH', KEYS[4], message) end
redis.call('PEXPIRE', KEYS[3], window)
redis.call('PEXPIRE', KEYS[4], window)
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('ZADD', KEYS[5], 0, name)
redis.call('ZADD', KEYS[6], now, name)

local lease = redis.call('HMGET', KEYS[1], 'run', 'until')
if lease[1] and lease[2] and tonumber(lease[2]) > now then
  redis.call('PUBLISH', ARGV[5], 'arrived\n' .. name .. '\n' .. lease[1])
end
return 0
