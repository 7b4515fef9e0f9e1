-- Adds a model's name to the list of names, unless the list has as many names as a key may have.
-- KEYS: the names. ARGV: the name, the pattern of the key's names, in which * matches any characters, the part before
--       its first *, and how many names the list may have that match it.
-- Returns 1 if the name is in the list now, else 0.
if redis.call('ZMSCORE', KEYS[1], ARGV[1])[1] then
  return 1
end
local prefix, there = ARGV[3], 0
local pieces = {}
for piece in string.gmatch(ARGV[2] .. '*', '([^*]*)%*') do
  pieces[#pieces + 1] = piece
end

-- Returns whether the pieces of the pattern follow one another in a name that begins with the first one. Lua's own
-- patterns would take a time that grows exponentially with the number of asterisks.
local function matches(name)
  local last = pieces[#pieces]
  if #pieces == 1 then
    return name == last
  end
  local at = #prefix + 1
  for i = 2, #pieces - 1 do
    local _, ends = string.find(name, pieces[i], at, true)
    if not ends then
      return false
    end
    at = ends + 1
  end
  return #name - #last + 1 >= at and string.sub(name, #name - #last + 1) == last
end

for _, name in ipairs(redis.call('ZRANGE', KEYS[1], '[' .. prefix, '[' .. prefix .. '\127', 'BYLEX')) do
  there = there + (matches(name) and 1 or 0)
end
if there >= tonumber(ARGV[4]) then
  return 0
end
redis.call('ZADD', KEYS[1], 0, ARGV[1])
return 1
