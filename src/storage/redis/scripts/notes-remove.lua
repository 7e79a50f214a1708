--[[
  Removes notes of a chat.
  KEYS  1 notes
  ARGV  1... note names
  Returns 0.
]]
local gone = {}
for _, name in ipairs(ARGV) do gone[name] = true end
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if gone[string.sub(entry, 1, string.find(entry, '\n', 1, true) - 1)] then
    redis.call('LREM', KEYS[1], 1, entry)
  end
end
return 0
