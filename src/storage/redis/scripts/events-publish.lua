--[[
  Appends a batch of run events to the conversation's stream and hands it to the subscribers.
  The hash keeps what outlives the stream: `event` the last id, `event-floor` the id after which everything is kept,
  `event-run` the id before the newest run's first event. Before a conversation's first event, ids as old as what is
  kept for are known: events-read.lua gave them out.
  KEYS  1 meta  2 events
  ARGV  1 channel  2 most events to keep  3 time to keep them in ms  4 position of the newest agent_start, 0 none  5... events
  Returns the last id. Publishes `<id>\n<event>` for each event, and then the id before the first, joined by newlines.
]]
local keep = tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('HGET', KEYS[1], 'event') or (now - tonumber(ARGV[3])) .. '-0'
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('HSET', KEYS[1], 'event-floor', last) end
local payload, before = {}, last
for i = 5, #ARGV do
  if i - 4 == tonumber(ARGV[4]) then redis.call('HSET', KEYS[1], 'event-run', last) end
  last = redis.call('XADD', KEYS[2], '*', 'e', ARGV[i])
  payload[#payload + 1] = last
  payload[#payload + 1] = ARGV[i]
end
redis.call('HSET', KEYS[1], 'event', last)
local excess = redis.call('XLEN', KEYS[2]) - keep
-- Seldom and exactly, so that the floor is known: `MAXLEN ~` does not tell what it removed.
if excess > keep / 10 then
  local removed = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', excess)
  redis.call('XTRIM', KEYS[2], 'MAXLEN', keep)
  redis.call('HSET', KEYS[1], 'event-floor', removed[#removed][1])
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
payload[#payload + 1] = before
redis.call('PUBLISH', ARGV[1], table.concat(payload, '\n'))
return last
