--[[
  Marks the active or interrupted run as cancelled and tells the process that runs it.
  KEYS  1 meta
  ARGV  1 conversation name  2 signal channel
  Returns the run's id or nil. Publishes `cancel`.
]]
local run = redis.call('HGET', KEYS[1], 'run')
if not run then return nil end
redis.call('HSET', KEYS[1], 'cancelled', 1)
redis.call('PUBLISH', ARGV[2], 'cancel\n' .. ARGV[1] .. '\n' .. run)
return run
