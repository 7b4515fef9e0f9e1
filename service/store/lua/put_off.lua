#!lua flags=allow-oom
-- Lets a model be due later.
-- KEYS: a list of due models. ARGV: member, offset of the clock in seconds, seconds from now. Returns 1.
local clock = redis.call('TIME')
local due_at = clock[1] + clock[2] / 1e6 + ARGV[2] + ARGV[3]
redis.call('ZADD', KEYS[1], 'XX', string.format('%.17g', due_at), ARGV[1])
return 1
