--[[
  Starts a conversation over: empties history, summary and journal, and cancels an active or interrupted run, whose
  commit then merges no history.
  KEYS  1 meta  2 history  3 journal
  ARGV  1 conversation name  2 signal channel
  Returns the cancelled run's id or nil. Publishes `cancel`.
]]
redis.call('HINCRBY', KEYS[1], 'generation', 1)
redis.call('HDEL', KEYS[1], 'from', 'summary')
redis.call('DEL', KEYS[2], KEYS[3])
local run = redis.call('HGET', KEYS[1], 'run')
if not run then return nil end
redis.call('HSET', KEYS[1], 'cancelled', 1)
redis.call('PUBLISH', ARGV[2], 'cancel\n' .. ARGV[1] .. '\n' .. run)
return run
