--[[
  What a conversation is doing.
  KEYS  1 meta  2 inbox  3 history
  Returns {messages in the inbox, run if its lease is live, summary, history length, input, output, cached tokens}.
  Reads only.
]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local meta = redis.call('HMGET', KEYS[1], 'until', 'run', 'summary', 'input', 'output', 'cached')
local live = tonumber(meta[1] or 0) > now
return { redis.call('LLEN', KEYS[2]), live and meta[2], meta[3], redis.call('LLEN', KEYS[3]), meta[4], meta[5], meta[6] }
