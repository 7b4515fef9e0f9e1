#!lua flags=allow-oom
-- Adds up processor time that a key has used: a leaky bucket, which drains at the pace of the key's budget.
-- KEYS: the bucket, which expires when it is empty. ARGV: milliseconds that draining what was used now takes, and the
-- most that draining the bucket may take. Returns the milliseconds that draining the bucket takes.
local left = math.min(math.max(redis.call('PTTL', KEYS[1]), 0) + ARGV[1], ARGV[2])
if left > 0 then
  redis.call('SET', KEYS[1], '', 'PX', string.format('%.0f', left))
end
return left
