-- Replaces the record of an API key that is still there: a key revoked meanwhile stays revoked.
-- KEYS: the API keys. ARGV: id, record. Returns 1, or 0 if there is no such key.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
