--[[
  Reads what people chose for a conversation, and keeps it for as long again.
  KEYS  1 preferences: hash
  ARGV  1 time to live in ms, 0 none
  Returns fields and values.
]]
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 0 and ARGV[1] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return fields
