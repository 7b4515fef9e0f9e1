-- Stands before scripts that read the log.
-- The rounds of an entry, or nil where its fields are not those of this version: the reader reports that.
local function rounds_of(entry)
  local fields = entry and entry[2]
  if fields and #fields == 4 and fields[1] == 'p' and fields[3] == 'r' then
    return fields[4]
  end
end

-- The moment of an entry's first round, as the bytes of a float64: a damaged one equals itself, too.
local function moment_of(entry)
  local rounds = rounds_of(entry)
  return rounds and string.sub(rounds, 6, 13)
end

local MOST_BYTES, MOST_AT_ONCE = 4194304, 64

-- The entries from one on that hold the rounds up to another, both by their ids; the last may hold more. Where they
-- have many bytes, only the first of them: a reply must neither hold up the store nor fill a worker's memory.
local function read_entries(log, from, upto)
  local entries, bytes, count, start = {}, 0, 2, from
  while bytes < MOST_BYTES do
    local page = redis.call('XRANGE', log, start, upto, 'COUNT', count)
    for _, entry in ipairs(page) do
      entries[#entries + 1] = entry
      bytes = bytes + #(rounds_of(entry) or '')
    end
    start = entries[1] and '(' .. entries[#entries][1] or from
    if #page < count then
      if not entries[1] or entries[#entries][1] ~= upto then -- the next one goes beyond
        entries[#entries + 1] = redis.call('XRANGE', log, start, '+', 'COUNT', 1)[1]
      end
      break
    end
    count = math.min(4 * count, MOST_AT_ONCE)
  end
  return entries
end

