--[[
  Takes the lease of a conversation for a run: a new one over the oldest waiting messages, or the interrupted one.
  KEYS  1 meta  2 inbox  3 history  4 journal  5 seen  6 pending
  ARGV  1 run id for a new run  2 lease in ms  3 most messages to take  4 conversation name  5 history ttl in ms, 0 none
  Returns {'held', ms left} | {'empty'} |
    {'claimed', run, epoch, its generation, attempt, cancelled 0/1, context from, summary or nil, inbox, context, journal}
]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local meta = redis.call('HMGET', KEYS[1],
  'until', 'run', 'generation', 'attempt', 'taken', 'cancelled', 'from', 'summary', 'run-generation', 'epoch')
local leased = tonumber(meta[1] or 0)
if leased > now then return { 'held', leased - now } end

local run, generation, inbox, journal = meta[2], meta[9], {}, {}
-- Takes the first message if `any`, and those after it that join ('j').
local function take(any)
  local first = #inbox + 1
  while #inbox < tonumber(ARGV[3]) do
    local entry = redis.call('LINDEX', KEYS[2], #inbox)
    if not entry or (not (any and #inbox == 0) and string.sub(entry, 1, 1) ~= 'j') then break end
    inbox[#inbox + 1] = entry
  end
  for n = first, #inbox do
    local message = string.sub(inbox[n], 2, string.find(inbox[n], '\n', 1, true) - 1)
    local value = redis.call('HGET', KEYS[5], message)
    if value then redis.call('HSET', KEYS[5], message, string.match(value, '^%d+') .. ' r' .. run) end
  end
end
if run then
  inbox = redis.call('LRANGE', KEYS[2], 0, tonumber(meta[5]) - 1)
  journal = redis.call('LRANGE', KEYS[4], 0, -1)
  -- Nothing was done yet: what joined meanwhile belongs to it.
  if #journal == 0 and not meta[6] then take(false) end
else
  run, generation = ARGV[1], meta[3] or '0'
  take(true)
  if #inbox == 0 then
    redis.call('ZREM', KEYS[6], ARGV[4])
    return { 'empty' }
  end
  -- Left over only if the lease's hash expired in the middle of a run.
  redis.call('DEL', KEYS[4])
end

-- By the clock: higher than any before also when the hash expired, or went back in time with a crash of the server.
local epoch = math.max(tonumber(meta[10] or 0) + 1, now)
local attempt = tonumber(meta[4] or 0) + 1
redis.call('HSET', KEYS[1], 'epoch', epoch, 'run', run, 'until', now + tonumber(ARGV[2]), 'attempt', attempt, 'taken', #inbox,
  'run-generation', generation)
local ttl = tonumber(ARGV[5])
if ttl > 0 then
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PEXPIRE', KEYS[3], ttl)
end
local from = tonumber(meta[7] or 0)
local context = redis.call('LRANGE', KEYS[3], from, -1)
return { 'claimed', run, epoch, tonumber(generation), attempt, meta[6] and 1 or 0, from, meta[8], inbox, context,
  journal }
