--[[
  One page of the history, going back in time.
  KEYS  1 history
  ARGV  1 index after the page's last entry, '' for the newest  2 most entries
  Returns {index of the first entry, entries oldest first}. Reads only.
]]
local last = redis.call('LLEN', KEYS[1])
if ARGV[1] ~= '' then last = math.min(last, tonumber(ARGV[1])) end
local first = math.max(0, last - tonumber(ARGV[2]))
if last == 0 then return { 0, {} } end
return { first, redis.call('LRANGE', KEYS[1], first, last - 1) }
