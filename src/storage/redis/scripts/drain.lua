--[[
  Takes waiting messages that may join ('j') into the active run, up to the first that may not.
  KEYS  1 meta  2 inbox  3 seen
  ARGV  1 epoch  2 most messages to take
  Returns nil if stale, else the inbox entries.
]]
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'until', 'taken', 'run')
if meta[1] ~= ARGV[1] or not meta[2] then return nil end
local taken, entries = tonumber(meta[3]), {}
while #entries < tonumber(ARGV[2]) do
  local entry = redis.call('LINDEX', KEYS[2], taken + #entries)
  if not entry or string.sub(entry, 1, 1) ~= 'j' then break end
  entries[#entries + 1] = entry
  local message = string.sub(entry, 2, string.find(entry, '\n', 1, true) - 1)
  local value = redis.call('HGET', KEYS[3], message)
  if value then redis.call('HSET', KEYS[3], message, string.match(value, '^%d+') .. ' r' .. meta[4]) end
end
if #entries > 0 then redis.call('HSET', KEYS[1], 'taken', taken + #entries) end
return entries
