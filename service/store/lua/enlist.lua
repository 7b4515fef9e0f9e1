#!lua flags=allow-oom
-- Lists models in a sorted set. KEYS: the set. ARGV: the arguments of ZADD after its key. Returns what it returns.
return redis.call('ZADD', KEYS[1], unpack(ARGV))
