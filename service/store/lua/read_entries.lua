-- Precedes scripts that read the log. The id of an entry is <rounds>-<changes>, in all with this one.
-- Layouts: service/store/records/layout.py.
-- The rounds of an entry, and the version of their layout; nil where its fields are not those of this version, or it
-- is no round: the reader reports that.
local function rounds_of(entry)
  local fields = entry and entry[2] or {}
  if #fields == 4 and fields[1] == 'p' and fields[3] == 'r' then
    return fields[4], VERSION_3
  elseif #fields == 8 and fields[2] == 'r' and fields[4] == tostring(VERSION) and fields[7] == 'd' then
    return fields[8], VERSION
  end
end

local function round_count(entry)
  return tonumber(string.match(entry[1], '^%d+'))
end

-- The moment of an entry's first round, as the bytes of a float64: a damaged one equals itself, too.
local function moment_of(entry)
  local rounds, version = rounds_of(entry)
  local at = version == VERSION and ROUND_FEEDBACK_AT or ROUND_3_FEEDBACK_AT
  return rounds and string.sub(rounds, at, at + 7)
end

-- The number that an entry's first round says it has; the entry's own where there is none.
local function begin_of(entry)
  local rounds, version = rounds_of(entry)
  local at = version == VERSION and ROUND_ROUND or ROUND_3_ROUND
  return rounds and #rounds >= at + 7 and struct.unpack('<i8', rounds, at) or round_count(entry)
end

local MOST_BYTES, MOST_AT_ONCE = 4194304, 64

-- The entries from an id on that hold the rounds up to some number, and the changes there; the last may hold more.
-- Where they have many bytes, only the first of them: a reply must neither hold up the store nor fill a worker's
-- memory.
local function read_entries(log, from, upto)
  local entries, bytes, count, start = {}, 0, 2, from
  while bytes < MOST_BYTES do
    local page = redis.call('XRANGE', log, start, string.format('%.0f', upto), 'COUNT', count)
    for _, entry in ipairs(page) do
      entries[#entries + 1] = entry
      bytes = bytes + #(rounds_of(entry) or '')
    end
    start = entries[1] and '(' .. entries[#entries][1] or from
    if #page < count then
      if not entries[1] or round_count(entries[#entries]) ~= upto then -- the next one goes beyond
        entries[#entries + 1] = redis.call('XRANGE', log, start, '+', 'COUNT', 1)[1]
      end
      break
    end
    count = math.min(4 * count, MOST_AT_ONCE)
  end
  return entries
end

