-- Erases what one incarnation of a model has left, unless the model is there: a store may have lost its deletion.
-- KEYS: model, then what is erased. ARGV: incarnation. Returns 1.
if redis.pcall('HGET', KEYS[1], 'incarnation') ~= ARGV[1] then
  redis.call('UNLINK', unpack(KEYS, 2))
end
return 1
