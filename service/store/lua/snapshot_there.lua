-- Precedes scripts that compare a snapshot with the one in its place.
-- What that one has seen, and the version of its format, as numbers: zeros where there is none, or its key holds
-- another type of value. `sound` is false where it is on record as damaged, too: then any other may take its place.
local function snapshot_there(key)
  local found = redis.pcall('HMGET', key, 'rounds', 'changes', 'version', 'damaged')
  local function number(text)
    return tonumber(string.match(text or '', '^%d+$')) or 0
  end
  local there = {rounds = number(found[1]), changes = number(found[2]), version = number(found[3] or '1')}
  there.sound = not found.err and not found[4]
  return there
end

