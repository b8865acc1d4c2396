-- delete_if: deletes each entry that still holds the bytes that were seen.
-- KEYS: entries
-- ARGV: what each of them held
-- Answers, for each, 1 when it was deleted, else 0.
local deleted = {}
for i, key in ipairs(KEYS) do
  if redis.pcall('GET', key) == ARGV[i] then
    deleted[i] = redis.call('DEL', key)
  else
    deleted[i] = 0
  end
end
return deleted
