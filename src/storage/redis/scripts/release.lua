--[[
  Ends a lease without a merge: run, messages and journal stay for the next claim, and this attempt is not counted.
  KEYS  1 meta
  ARGV  1 epoch
  Returns 1 released, 0 stale.
]]
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'until')
if meta[1] ~= ARGV[1] or not meta[2] then return 0 end
redis.call('HDEL', KEYS[1], 'until')
redis.call('HINCRBY', KEYS[1], 'attempt', -1)
return 1
