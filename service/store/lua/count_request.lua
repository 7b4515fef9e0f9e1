#!lua flags=allow-oom
-- Counts a request in its window, which opens with the first request.
-- KEYS: the counter. ARGV: seconds of the window. Returns the requests in the window, and its remaining milliseconds.
local made = redis.call('INCR', KEYS[1])
if made == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return {made, redis.call('PTTL', KEYS[1])}
