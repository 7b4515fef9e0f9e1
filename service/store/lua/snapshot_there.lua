-- Prepended to scripts that examine the stored snapshot.
-- Returns its rounds and changes, and the version of its format, each 0 if missing or unreadable. `sound` is false if the
-- snapshot is recorded as damaged or its key holds another type of value: any other may then replace it.
local function snapshot_there(key)
  local found = redis.pcall('HMGET', key, 'rounds', 'changes', 'version', 'damaged')
  local function number(text)
    return tonumber(string.match(text or '', '^%d+$')) or 0
  end
  local there = {rounds = number(found[1]), changes = number(found[2]), version = number(found[3])}
  there.sound = not found.err and not found[4]
  return there
end

