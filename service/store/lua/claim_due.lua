#!lua flags=allow-oom
-- Claims models that are due for a visit: until the lease ends, no other worker claims them.
-- KEYS: models by the time of their next visit. ARGV: offset of the clock in seconds, limit, lease in seconds. Returns members.
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6 + ARGV[1]
local due = redis.call('ZRANGE', KEYS[1], '-inf', string.format('%.17g', now), 'BYSCORE', 'LIMIT', 0, ARGV[2])
for _, member in ipairs(due) do
  redis.call('ZADD', KEYS[1], string.format('%.17g', now + ARGV[3]), member)
end
return due
