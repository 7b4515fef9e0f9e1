-- Prepended to scripts that read the log. The id of an entry is <rounds>-<changes>, the totals including this entry.
-- Layouts: service/store/records/layout.py.
-- Returns the rounds of an entry; nil if this version does not support the entry's fields, or if it is not a round; the
-- reader then reports it.
local function rounds_of(entry)
  local fields = entry and entry[2] or {}
  if #fields == 8 and fields[2] == 'r' and fields[4] == tostring(VERSION) and fields[7] == 'd' then
    return fields[8]
  end
end

local function round_count(entry)
  return tonumber(string.match(entry[1], '^%d+'))
end

-- Returns the mark of an entry: the moment of its first round, as the bytes of a float64, or the first hexadecimal
-- digits of the SHA-1 of a change. Even a damaged one equals itself.
local function mark_of(entry)
  local fields = entry[2]
  if #fields == 6 and fields[2] == 'c' and fields[5] == 'd' then
    return string.sub(redis.sha1hex(fields[6]), 1, 8)
  end
  local rounds = rounds_of(entry)
  return rounds and string.sub(rounds, ROUND_FEEDBACK_AT, ROUND_FEEDBACK_AT + 7)
end

-- Returns the number stored in an entry's first round; the number in the entry's id if there is none.
local function begin_of(entry)
  local rounds = rounds_of(entry)
  return rounds and #rounds >= ROUND_ROUND + 7 and struct.unpack('<i8', rounds, ROUND_ROUND) or round_count(entry)
end

local MOST_BYTES, MOST_AT_ONCE = 4194304, 64

-- Returns the entries from an id on that contain the rounds up to some number, and the changes among them. The last
-- entry may contain more. If they have many bytes, returns only the first entries, because a reply must neither block
-- the store nor fill a worker's memory.
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
      if not entries[1] or round_count(entries[#entries]) ~= upto then -- the next entry ends after `upto`
        entries[#entries + 1] = redis.call('XRANGE', log, start, '+', 'COUNT', 1)[1]
      end
      break
    end
    count = math.min(4 * count, MOST_AT_ONCE)
  end
  return entries
end

