-- look: reads an entry; where nothing stands, also the hospital's fence, made if it is absent.
-- KEYS: 1 entry, 2 fence
-- ARGV: 1 a token never used before, 2 the fence's life in ms
-- Answers {"entry", value}, {"other"} where another type stands, {"miss", token}, or
-- {"fenceless", why} for a miss where no fence can be had (OOM, READONLY, NOPERM).
local entry = redis.pcall('GET', KEYS[1])
if type(entry) == 'string' then
  return {'entry', entry}
end
if type(entry) == 'table' then
  if string.sub(entry.err, 1, 9) == 'WRONGTYPE' then
    return {'other'}
  end
  return entry
end

local token = redis.pcall('GET', KEYS[2])
if type(token) == 'string' then
  redis.pcall('PEXPIRE', KEYS[2], ARGV[2])
  return {'miss', token}
end
if token then
  return {'fenceless', token.err}
end
local made = redis.pcall('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
if made.err then
  return {'fenceless', made.err}
end
return {'miss', ARGV[1]}
