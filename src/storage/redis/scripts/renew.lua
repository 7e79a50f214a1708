--[[
  Extends a lease from now on, by the server's clock.
  KEYS  1 meta
  ARGV  1 epoch  2 lease in ms
  Returns -1 stale, 0 renewed, 1 renewed and a cancel was asked for.
]]
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'until', 'cancelled')
if meta[1] ~= ARGV[1] or not meta[2] then return -1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'until', now + tonumber(ARGV[2]))
return meta[3] and 1 or 0
