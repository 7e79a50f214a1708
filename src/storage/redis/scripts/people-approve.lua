--[[
  Lets a person in.
  KEYS  1 requests  2 approvals  3 times
  ARGV  1 code  2 by whom, as json  3 time to live of a request in ms
  Returns the json of the approval, or nil: no such request, or it is too old.
]]
local approved = redis.call('HGET', KEYS[2], ARGV[1])
if approved then return approved end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local at = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0)
local json = redis.call('HGET', KEYS[1], ARGV[1])
if not json or at <= now - tonumber(ARGV[3]) then return nil end
json = string.sub(json, 1, -2) .. ',"approvedAt":' .. string.format('%.0f', now) .. ',"approvedBy":' .. ARGV[2] .. '}'
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], json)
return json
