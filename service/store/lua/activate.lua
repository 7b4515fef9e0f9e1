#!lua flags=allow-oom
-- Activates a prediction, so that it takes feedback.
-- KEYS: model, log, deadlines, the block. ARGV: incarnation, now, token.
-- Returns nil if the model is gone, else the first letter of the status: recorded, duplicate if the prediction is
-- active already, expired, unknown, broken or newer-version.
local SINGLE = string.rep('\255', 8)
if redis.call('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  return false
end
local block, trouble = read_block(KEYS[4])
if not block then
  return trouble
end
local i = ARGV[3] == SINGLE and 0 or struct.unpack('<I2', ARGV[3])
local prediction = prediction_of(block, i)
if i >= block.n or ARGV[3] ~= string.sub(prediction, PREDICTION_TOKEN, PREDICTION_BODY_CHECK - 1) then
  return 'u'
end
local outcome = outcome_of(block, i)
local at = block.outcomes_at + i * block.slot
if outcome == block.nothing then
  redis.call('SETRANGE', KEYS[4], at, outcome) -- replicas confirm writes only
  return 'd'
end
if outcome ~= block.inactive then
  local expired = kind_of(outcome) == EXPIRED
  return trouble_with(outcome, token_and_check_of(prediction)) or expired and 'e' or 'd'
end
if tonumber(ARGV[2]) > block.expires_at then
  return 'e'
end
redis.call('SETRANGE', KEYS[4], at, block.nothing)
return 'r'
