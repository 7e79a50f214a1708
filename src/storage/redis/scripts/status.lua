--[[
  The status of one message.
  KEYS  1 seen
  ARGV  1 message name
  Returns nil if unknown or out of the dedupe window, else `q`, `r<run>` or the status as commit.lua stored it. Reads only.
]]
local value = redis.call('HGET', KEYS[1], ARGV[1])
if not value then return nil end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expiry, status = string.match(value, '^(%d+) (.*)$')
if tonumber(expiry) <= now then return nil end
return status
