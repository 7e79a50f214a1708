--[[
  Changes what people chose for a conversation.
  KEYS  1 preferences: hash
  ARGV  1 time to live in ms, 0 none  2... fields and values in turn; an empty value takes the field away
  Returns 0.
]]
for n = 2, #ARGV, 2 do
  if ARGV[n + 1] == '' then redis.call('HDEL', KEYS[1], ARGV[n])
  else redis.call('HSET', KEYS[1], ARGV[n], ARGV[n + 1]) end
end
if ARGV[1] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return 0
