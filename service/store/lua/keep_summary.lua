#!lua flags=allow-oom
-- Stores the summary of a definition that has none.
-- KEYS: model. ARGV: incarnation, summary. Returns 1, or 0 if this incarnation is gone.
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'summary', ARGV[2])
return 1
