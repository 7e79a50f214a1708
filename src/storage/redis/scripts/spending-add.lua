--[[
  Adds to what somebody spent on one day.
  KEYS  1 spending: hash
  ARGV  1 input tokens  2 output tokens  3 cached tokens  4 time to live in ms
  Returns 0.
]]
redis.call('HINCRBY', KEYS[1], 'input', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'output', ARGV[2])
redis.call('HINCRBY', KEYS[1], 'cached', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 0
