--[[
  Keeps a note of a chat, unless it is there, and the newest ones only.
  KEYS  1 notes
  ARGV  1 note name  2 entry  3 number to keep  4 time to keep them in ms
  Returns 1 kept, 0 it was there.
]]
local head = ARGV[1] .. '\n'
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if string.sub(entry, 1, #head) == head then return 0 end
end
redis.call('RPUSH', KEYS[1], ARGV[2])
redis.call('LTRIM', KEYS[1], -tonumber(ARGV[3]), -1)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
