--[[
  Refuses a request, or takes an approval back.
  KEYS  1 requests  2 codes  3 approvals  4 times
  ARGV  1 code
  Returns its json, or nil: no such code.
]]
local json = redis.call('HGET', KEYS[1], ARGV[1]) or redis.call('HGET', KEYS[3], ARGV[1])
if not json then return nil end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[2], cjson.decode(json).key)
return json
