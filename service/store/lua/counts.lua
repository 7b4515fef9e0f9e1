-- Precedes scripts that read the counters of a model, which may be damaged.
local function is_count(digits)
  return string.match(digits, '^%d+$') and #digits <= 15
end

