--[[
  Takes, renews or gives back the right to act for a channel account.
  KEYS  1 lease: who has it, for as long as the key lives
  ARGV  1 who asks  2 for how long in ms; 0 gives it back
  Returns 1 if the asker has it now, else 0.
]]
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
