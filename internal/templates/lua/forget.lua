-- forget: fences a hospital, then deletes one of its entries whatever string it holds.
-- KEYS: 1 entry, 2 fence
-- Answers 1 when it was deleted, 0 when nothing stood there, -1 when another type does.
redis.call('DEL', KEYS[2])
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  return 0
end
if kind ~= 'string' then
  return -1
end
return redis.call('DEL', KEYS[1])
