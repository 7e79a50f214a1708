--[[
  Gives the delivery back for a later attempt; those behind it wait.
  KEYS  1 meta
  ARGV  1 epoch  2 delay in ms  3 error  4 attempts to take back
  Returns 1 done, 0 stale.
]]
local meta = redis.call('HMGET', KEYS[1], 'send-epoch', 'send-until')
if meta[1] ~= ARGV[1] or not meta[2] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HDEL', KEYS[1], 'send-until')
redis.call('HSET', KEYS[1], 'send-after', now + tonumber(ARGV[2]), 'error', ARGV[3])
if ARGV[4] ~= '0' then redis.call('HINCRBY', KEYS[1], 'attempts', -ARGV[4]) end
return 1
