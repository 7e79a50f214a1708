--[[
  Puts a failed message at the end of its conversation's inbox, as it came.
  KEYS  1 meta  2 inbox  3 seen  4 seen-order  5 pending  6 activity  7 failed  8 failed-at
  ARGV  1 message name  2 conversation name  3 dedupe window in ms  4 signal channel
  Returns 1 done, 0 it is not there. Publishes `arrived` when a live lease is held.
]]
local message, name, window = ARGV[1], ARGV[2], tonumber(ARGV[3])
local member = name .. '\n' .. message
local record = redis.call('HGET', KEYS[7], member)
if not record then return 0 end
redis.call('HDEL', KEYS[7], member)
redis.call('ZREM', KEYS[8], member)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

redis.call('HSET', KEYS[3], message, (now + window) .. ' q')
-- To the end, where it expires now. Seldom enough to look through the list.
redis.call('LREM', KEYS[4], 1, message)
redis.call('RPUSH', KEYS[4], message)
redis.call('PEXPIRE', KEYS[3], window)
redis.call('PEXPIRE', KEYS[4], window)
redis.call('RPUSH', KEYS[2], string.match(record, '^[^\n]*\n[^\n]*\n(.*)$'))
redis.call('ZADD', KEYS[5], 0, name)
redis.call('ZADD', KEYS[6], now, name)

local lease = redis.call('HMGET', KEYS[1], 'run', 'until')
if lease[1] and lease[2] and tonumber(lease[2]) > now then
  redis.call('PUBLISH', ARGV[4], 'arrived\n' .. name .. '\n' .. lease[1])
end
return 1
