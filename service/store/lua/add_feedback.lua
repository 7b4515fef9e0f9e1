-- Joins feedback with its prediction and appends the round to the log, once for each prediction.
-- KEYS: model, log, then one prediction each.
-- ARGV: incarnation, now, accept late (1/0), true label needed (1/0),
--       then for each: id, correct (1, 0 or ? where only the label is given), true label (-1 where unknown).
-- Returns nil if the model is gone, else for each {status, outcome}.
-- Record formats: service/store/records.py.
local HEAD = '<BBc16di8i4d'
local HEAD_BYTES = 46
local OUTCOME = '<Bi4di8'

if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
local now, accept_late, label_needed = tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4] == '1'

local function close(key, record, id, correct, true_label)
  local number = redis.call('HINCRBY', KEYS[1], 'rounds', 1)
  redis.call('HINCRBY', KEYS[1], 'correct', correct)
  local outcome = struct.pack(OUTCOME, correct, true_label, now, number)
  local round = outcome .. string.sub(record, HEAD_BYTES + 1)
  redis.call('XADD', KEYS[2], string.format('%.0f-0', number), 'p', id, 'r', round)
  local head = string.sub(record, 1, 1) .. '\1' .. string.sub(record, 3, HEAD_BYTES)
  redis.call('SET', key, head .. outcome, 'KEEPTTL')
  return {'recorded', outcome}
end

local function compare(record, correct, true_label)
  local outcome = string.sub(record, HEAD_BYTES + 1)
  local first_correct, first_label = struct.unpack(OUTCOME, outcome)
  local both_known = true_label >= 0 and first_label >= 0
  if correct ~= first_correct or (both_known and true_label ~= first_label) then
    return {'conflict', outcome}
  end
  return {'duplicate', outcome}
end

local function give(key, id, correct_text, true_label)
  local record = redis.call('GET', key)
  if not record then
    return {'unknown'}
  end
  local _, closed, _, expires_at, _, label = struct.unpack(HEAD, record)
  local correct = tonumber(correct_text)
  if true_label >= 0 then
    local matches = true_label == label and 1 or 0
    if correct and correct ~= matches then
      return {'inconsistent'}
    end
    correct = matches
  elseif correct == 1 then
    true_label = label
  end
  if closed == 1 then
    return compare(record, correct, true_label)
  end
  if now > expires_at and not accept_late then
    return {'expired'}
  end
  if label_needed and true_label < 0 then
    return {'label-needed'}
  end
  return close(key, record, id, correct, true_label)
end

local results = {}
for i = 3, #KEYS do
  local at = 5 + (i - 3) * 3
  results[i - 2] = give(KEYS[i], ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]))
end
return results
