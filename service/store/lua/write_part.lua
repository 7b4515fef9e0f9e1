#!lua flags=allow-oom
-- Writes a part of a snapshot under a temporary key. KEYS: that key. ARGV: field, part, seconds until it expires.
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return redis.call('EXPIRE', KEYS[1], ARGV[3])
