-- Counts a request in its window, which opens with the first one.
-- KEYS: the counter. ARGV: the window's seconds. Returns how many there were in it, and the milliseconds left of it.
local made = redis.call('INCR', KEYS[1])
if made == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return {made, redis.call('PTTL', KEYS[1])}
