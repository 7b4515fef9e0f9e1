-- Prepended to scripts that trim the log or change shadows.
-- Returns the number of rounds that each shadow of a model has folded in its snapshot, or skipped before it began.
local function shadow_rounds(key)
  local fields, found = redis.call('HGETALL', key), {}
  local since, folded = {}, {}
  for i = 1, #fields, 2 do
    local name, what = string.match(fields[i], '^(.+):(%a+)$')
    if what == 'since' then
      since[name] = tonumber(string.match(fields[i + 1], '^%d+'))
    elseif what == 'rounds' then
      folded[name] = tonumber(fields[i + 1])
    end
  end
  for name, begin in pairs(since) do
    found[#found + 1] = folded[name] or begin
  end
  return found
end

