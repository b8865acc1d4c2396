-- look: reads an entry; where nothing stands, also the hospital's fence, made if it is absent.
-- KEYS: 1 entry, 2 fence, 3 claim
-- ARGV: 1 a token never used before, 2 the fence's life in ms, 3 the load's own token, 4 the claim's life in ms
-- The claim and its two arguments may be left out. With them a miss also claims the template for
-- this load, so that of several processes one asks SureM; again and again, if it is its own already.
-- Answers {"entry", value}, {"other"} where another type stands, {"wait"} while another load holds
-- the claim, {"miss", token}, {"miss", token, why} where the claim cannot be had, or
-- {"fenceless", why} for a miss where no fence can be had (OOM, READONLY, NOPERM): such a load
-- stores nothing, so that it claims nothing.
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

if KEYS[3] then
  local holder = redis.pcall('GET', KEYS[3])
  if type(holder) == 'string' and holder ~= ARGV[3] then
    return {'wait'}
  end
end

local token = redis.pcall('GET', KEYS[2])
if type(token) == 'table' then
  return {'fenceless', token.err}
end
if not token then
  token = ARGV[1]
  local made = redis.pcall('SET', KEYS[2], token, 'PX', ARGV[2])
  if made.err then
    return {'fenceless', made.err}
  end
end
local claimed = KEYS[3] and redis.pcall('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])
-- Last, since a full Redis refuses only the first write of a script, and never this one.
redis.pcall('PEXPIRE', KEYS[2], ARGV[2])
if claimed and claimed.err then
  return {'miss', token, claimed.err}
end
return {'miss', token}
