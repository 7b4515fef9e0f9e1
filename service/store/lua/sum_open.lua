-- Returns the bytes of a model's open predictions, and writes nothing: each key with a budget of them asks once a second.
-- KEYS: model.
return (count_open(KEYS[1]))
