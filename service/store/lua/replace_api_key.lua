#!lua flags=allow-oom
-- Replaces the record of an API key, unless the key was revoked.
-- KEYS: the API keys. ARGV: id, record. Returns 1, or 0 if the key does not exist.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
