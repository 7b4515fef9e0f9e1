-- Stands before scripts that read the log.
-- The entries from one on that hold the rounds up to another, both by their ids; the last may hold more.
local function read_entries(log, from, upto)
  local entries = redis.call('XRANGE', log, from, upto)
  local last = entries[#entries] and entries[#entries][1]
  if last ~= upto then -- the next one goes beyond
    entries[#entries + 1] = redis.call('XRANGE', log, last and '(' .. last or from, '+', 'COUNT', 1)[1]
  end
  return entries
end

