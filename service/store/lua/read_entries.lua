-- Stands before scripts that read the log.
-- The rounds of an entry, or nil where its fields are not those of this version: whoever reads it says so.
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

-- The entries from one on that hold the rounds up to another, both by their ids; the last may hold more.
local function read_entries(log, from, upto)
  local entries = redis.call('XRANGE', log, from, upto)
  local last = entries[#entries] and entries[#entries][1]
  if last ~= upto then -- the next one goes beyond
    entries[#entries + 1] = redis.call('XRANGE', log, last and '(' .. last or from, '+', 'COUNT', 1)[1]
  end
  return entries
end

