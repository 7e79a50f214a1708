--[[
  The kept run events after an id, and where the stream stands.
  KEYS  1 meta  2 events
  ARGV  1 id to read after, as XRANGE takes it; '' reads none  2 time that events are kept in ms
  Returns {floor, last id, id before the newest run or nil, stream entries}. Reads only.
]]
local meta = redis.call('HMGET', KEYS[1], 'event', 'event-floor', 'event-run')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if not meta[1] then
  -- No event yet: the first one's id will be of this millisecond or later.
  return { (now - tonumber(ARGV[2])) .. '-0', (now - 1) .. '-0', false, {} }
end
if redis.call('EXISTS', KEYS[2]) == 0 then return { meta[1], meta[1], false, {} } end
local entries = {}
if ARGV[1] ~= '' then entries = redis.call('XRANGE', KEYS[2], ARGV[1], '+') end
return { meta[2], meta[1], meta[3], entries }
