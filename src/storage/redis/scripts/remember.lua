--[[
  Remembers a message id unless it is known.
  KEYS  1 index entry
  ARGV  1 value  2 time to keep it in ms
  Returns nil if it was new, else the known value.
]]
if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then return nil end
return redis.call('GET', KEYS[1])
