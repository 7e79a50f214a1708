--[[
  Takes the lease of the delivery that is next in its conversation.
  KEYS  1 meta  2 outbox  3 outboxes
  ARGV  1 conversation name  2 lease in ms
  Returns {'empty'} | {'wait', ms} | {'claimed', epoch, attempt, outbox entry}
]]
local entry = redis.call('LINDEX', KEYS[2], 0)
if not entry then
  redis.call('ZREM', KEYS[3], ARGV[1])
  return { 'empty' }
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local meta = redis.call('HMGET', KEYS[1], 'send-until', 'send-after', 'send-epoch', 'attempts')
local blocked = math.max(tonumber(meta[1] or 0), tonumber(meta[2] or 0))
if blocked > now then return { 'wait', blocked - now } end
-- By the clock, as in claim.lua.
local epoch = math.max(tonumber(meta[3] or 0) + 1, now)
local attempt = tonumber(meta[4] or 0) + 1
redis.call('HSET', KEYS[1], 'send-until', now + tonumber(ARGV[2]), 'send-epoch', epoch, 'attempts', attempt)
return { 'claimed', epoch, attempt, entry }
