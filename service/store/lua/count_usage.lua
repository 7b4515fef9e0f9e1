#!lua flags=allow-oom
-- Counts what a key has used in a window, which opens with the first use.
-- KEYS: the counter. ARGV: seconds of the window, what was used now. Returns the sum in the window, and its remaining
-- milliseconds.
local used = redis.call('INCRBY', KEYS[1], ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
  left = ARGV[1] * 1000
end
return {used, left}
