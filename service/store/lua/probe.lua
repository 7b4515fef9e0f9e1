-- Writes as every other script does, so that it is refused when they would be.
-- KEYS: a key of nobody's. ARGV: milliseconds until it is forgotten. Returns 1.
redis.call('SET', KEYS[1], 1, 'PX', ARGV[1])
return 1
