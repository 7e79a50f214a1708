--[[
  Remembers a stranger's request, unless the person is known. Requests that waited too long go first.
  KEYS  1 requests: hash code → json  2 codes: hash person → code  3 approvals: hash code → json
        4 times: sorted set of codes by the time of their request
  ARGV  1 code  2 person  3 json, without its time and closing brace  4 time to live in ms  5 most that may wait
        6 account
  Returns the json of what is known, or nil: too many wait.
]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, code in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', now - tonumber(ARGV[4]), 'LIMIT', 0, 100)) do
  local request = redis.call('HGET', KEYS[1], code)
  if request then redis.call('HDEL', KEYS[2], cjson.decode(request).key) end
  redis.call('HDEL', KEYS[1], code)
  redis.call('ZREM', KEYS[4], code)
end

local known = redis.call('HGET', KEYS[2], ARGV[2])
if known then
  local json = redis.call('HGET', KEYS[3], known) or redis.call('HGET', KEYS[1], known)
  if json then return json end
end
local waiting = 0
for _, json in ipairs(redis.call('HVALS', KEYS[1])) do
  if cjson.decode(json).account == ARGV[6] then waiting = waiting + 1 end
end
if waiting >= tonumber(ARGV[5]) then return nil end

local json = ARGV[3] .. ',"at":' .. string.format('%.0f', now) .. '}'
redis.call('HSET', KEYS[1], ARGV[1], json)
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
redis.call('ZADD', KEYS[4], now, ARGV[1])
return json
