--[[
  Puts the delivery aside until somebody retries it, out of the way of those behind it.
  KEYS  1 meta  2 outbox  3 outboxes  4 parked  5 parked-at
  ARGV  1 epoch  2 conversation name  3 error as a JSON string
  Returns -1 stale, 0 none left, 1 another one waits.
]]
local meta = redis.call('HMGET', KEYS[1], 'send-epoch', 'send-until', 'attempts')
if meta[1] ~= ARGV[1] or not meta[2] then return -1 end
local entry = redis.call('LPOP', KEYS[2])
local delivery = string.sub(entry, 1, string.find(entry, '\n', 1, true) - 1)
local time = redis.call('TIME')
redis.call('HSET', KEYS[4], delivery, (meta[3] or 0) .. '\n' .. ARGV[3] .. '\n' .. entry)
redis.call('ZADD', KEYS[5], time[1] * 1000 + math.floor(time[2] / 1000), delivery)
redis.call('HDEL', KEYS[1], 'send-until', 'send-after', 'attempts', 'error')
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
redis.call('ZREM', KEYS[3], ARGV[2])
return 0
