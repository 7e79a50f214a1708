--[[
  Merges a run, all at once: history, statuses, outbox, end of the lease. The epoch check at the top is what keeps a
  worker that was stopped and continued from merging beside the one that took over.
  KEYS  1 meta  2 inbox  3 history  4 journal  5 seen  6 pending  7 outbox  8 outboxes  9 activity  10 failed  11 failed-at
  ARGV  1 epoch  2 generation  3 conversation name  4 status of the taken messages
        5 input tokens  6 output tokens  7 cached tokens  8 new context index or ''  9 new summary or ''
        10 history ttl in ms, 0 none  11 run as a JSON string  12 why it failed as a JSON string, or ''
        13 dedupe window in ms  14 number of history entries  15... history entries, then outbox entries
  Returns -1 stale, 0 nothing more waits, 1 messages wait.
]]
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'until', 'generation', 'taken')
if meta[1] ~= ARGV[1] or not meta[2] then return -1 end

local name, entries = ARGV[3], tonumber(ARGV[14])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function push(key, first, last)
  -- unpack() is bounded by Lua's stack.
  for start = first, last, 1000 do
    redis.call('RPUSH', key, unpack(ARGV, start, math.min(start + 999, last)))
  end
end

-- After a reset the messages get their answer, and the history stays empty.
if (meta[3] or '0') == ARGV[2] then
  push(KEYS[3], 15, 14 + entries)
  if ARGV[8] ~= '' then redis.call('HSET', KEYS[1], 'from', ARGV[8], 'summary', ARGV[9]) end
end
for field, tokens in pairs({ input = ARGV[5], output = ARGV[6], cached = ARGV[7] }) do
  if tokens ~= '0' then redis.call('HINCRBY', KEYS[1], field, tokens) end
end

for _, entry in ipairs(redis.call('LPOP', KEYS[2], meta[4]) or {}) do
  local message = string.sub(entry, 2, string.find(entry, '\n', 1, true) - 1)
  local value = redis.call('HGET', KEYS[5], message)
  if value then redis.call('HSET', KEYS[5], message, string.match(value, '^%d+') .. ' ' .. ARGV[4]) end
  if ARGV[12] ~= '' then
    local member = name .. '\n' .. message
    redis.call('HSET', KEYS[10], member, ARGV[11] .. '\n' .. ARGV[12] .. '\n' .. entry)
    redis.call('ZADD', KEYS[11], now, member)
  end
end
if ARGV[12] ~= '' then
  local window = tonumber(ARGV[13])
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', KEYS[11], '-inf', now - window, 'LIMIT', 0, 100)) do
    redis.call('HDEL', KEYS[10], old)
    redis.call('ZREM', KEYS[11], old)
  end
  redis.call('PEXPIRE', KEYS[10], window)
  redis.call('PEXPIRE', KEYS[11], window)
end
if #ARGV > 14 + entries then
  push(KEYS[7], 15 + entries, #ARGV)
  redis.call('ZADD', KEYS[8], 0, name)
end

redis.call('DEL', KEYS[4])
redis.call('HDEL', KEYS[1], 'run', 'run-generation', 'until', 'attempt', 'taken', 'cancelled')
redis.call('ZADD', KEYS[9], now, name)
local ttl = tonumber(ARGV[10])
if ttl > 0 then
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PEXPIRE', KEYS[3], ttl)
  redis.call('ZREMRANGEBYSCORE', KEYS[9], '-inf', now - ttl)
end
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
redis.call('ZREM', KEYS[6], name)
return 0
