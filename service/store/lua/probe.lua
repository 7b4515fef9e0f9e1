#!lua flags=allow-oom
-- Writes like feedback does, so that a store that refuses feedback refuses this as well.
-- KEYS: an otherwise unused key. ARGV: its time to live in milliseconds. Returns 1.
redis.call('SET', KEYS[1], 1, 'PX', ARGV[1])
return 1
