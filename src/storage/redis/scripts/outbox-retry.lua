--[[
  Puts a parked delivery at the end of its conversation's outbox, its attempts at 0.
  KEYS  1 parked  2 parked-at  3 outbox  4 outboxes
  ARGV  1 delivery name  2 conversation name
  Returns 1 done, 0 it is not parked any more.
]]
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('RPUSH', KEYS[3], string.match(record, '^%d+\n[^\n]*\n(.*)$'))
redis.call('ZADD', KEYS[4], 0, ARGV[2])
return 1
