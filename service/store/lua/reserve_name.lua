-- Adds a model's name to the list of names, unless the list has as many names as a key may have.
-- KEYS: the names. ARGV: the name, the pattern of the key's names, in which * matches any characters, the part before
--       its first *, and how many names the list may have that match it.
-- Returns 1 if the name is in the list now, else 0.
if redis.call('ZMSCORE', KEYS[1], ARGV[1])[1] then
  return 1
end
local prefix, there = ARGV[3], 0
local pattern = '^' .. string.gsub(string.gsub(ARGV[2], '[.-]', '%%%0'), '%*', '.*') .. '$'
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], '[' .. prefix, '[' .. prefix .. '\127', 'BYLEX')) do
  there = there + (string.match(name, pattern) and 1 or 0)
end
if there >= tonumber(ARGV[4]) then
  return 0
end
redis.call('ZADD', KEYS[1], 0, ARGV[1])
return 1
