--[[
  Removes the delivery that was sent.
  KEYS  1 meta  2 outbox  3 outboxes
  ARGV  1 epoch  2 conversation name
  Returns -1 stale, 0 none left, 1 another one waits.
]]
local meta = redis.call('HMGET', KEYS[1], 'send-epoch', 'send-until')
if meta[1] ~= ARGV[1] or not meta[2] then return -1 end
redis.call('LPOP', KEYS[2])
redis.call('HDEL', KEYS[1], 'send-until', 'send-after', 'attempts', 'error')
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
redis.call('ZREM', KEYS[3], ARGV[2])
return 0
