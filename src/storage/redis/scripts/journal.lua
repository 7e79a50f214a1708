--[[
  Appends steps to the active run's journal.
  KEYS  1 meta  2 journal
  ARGV  1 epoch  2... entries
  Returns 1 written, 0 stale.
]]
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'until')
if meta[1] ~= ARGV[1] or not meta[2] then return 0 end
-- unpack() is bounded by Lua's stack.
for first = 2, #ARGV, 1000 do
  redis.call('RPUSH', KEYS[2], unpack(ARGV, first, math.min(first + 999, #ARGV)))
end
return 1
