#!lua flags=allow-oom
-- Counts a request of a key in a window, which opens with the first one.
-- KEYS: the counter. ARGV: seconds of the window. Returns the requests in the window, and its remaining milliseconds.
local made = redis.call('INCRBY', KEYS[1], 1)
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
  left = ARGV[1] * 1000
end
return {made, left}
