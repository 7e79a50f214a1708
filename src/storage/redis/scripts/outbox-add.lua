--[[
  Puts a delivery at the end of its conversation's outbox.
  KEYS  1 outbox  2 outboxes
  ARGV  1 conversation name  2 outbox entry
  Returns 1.
]]
redis.call('RPUSH', KEYS[1], ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return 1
