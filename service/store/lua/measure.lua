-- Measures keys. KEYS: the keys. ARGV: elements of each to sample. Returns the bytes of each, 0 for a missing one.
local sizes = {}
for i, key in ipairs(KEYS) do
  sizes[i] = redis.call('MEMORY', 'USAGE', key, 'SAMPLES', ARGV[1]) or 0
end
return sizes
