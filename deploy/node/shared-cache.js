// How the hospital's own application reads a template through the cache that it shares with
// the syncer, without ever putting a stale one back. ../sharing-the-cache.md says why.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';

const script = (name) => ({
  numberOfKeys: 2,
  lua: readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8'),
});

/**
 * A Redis client for this cache. Of ioredis' defaults one is dangerous here: a command whose
 * reply was lost in a reconnect is sent again, and a token that a pass has just removed would
 * be back.
 */
export const connect = (url, options = {}) =>
  new Redis(url, {
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 1,
    commandTimeout: 1000,
    ...options,
    scripts: { look: script('look'), store: script('store') },
  });

/**
 * @param {Redis} redis from connect()
 * @param {object} o
 * @param {(hospitalId: string, code: string) => Promise<object>} o.load asks SureM for the
 *   detail and resolves to what stands in `data`; rejects after at most loadMs
 * @param {number} [o.loadMs] the longest that a load takes, 15 s
 * @param {number} [o.ttlMs] the syncer's CACHE_TTL, 24 h
 * @param {(hospitalId: string) => string} [o.prefix] CACHE_KEY_FORMAT up to the code
 * @param {boolean} [o.keyv] true for CACHE_VALUE_FORMAT=keyv
 */
export function sharedCache(redis, { load, loadMs = 15_000, ttlMs = 86_400_000, keyv = false,
  prefix = (hospitalId) => `infotalk:template:{${hospitalId}}:` }) {
  const fenceMs = 2 * loadMs + 60_000;

  return async function get(hospitalId, code) {
    const entry = prefix(hospitalId) + code;
    const fence = `alimtalk-syncer:fence:${prefix(hospitalId)}`;

    // 1. The token is taken before SureM is asked, and it is a new one each time.
    let token;
    try {
      const [found, value] = await redis.look(entry, fence, randomUUID(), fenceMs);
      if (found === 'entry') {
        const cached = read(value);
        if (cached !== undefined) return cached;
      }
      if (found === 'miss') token = value;
    } catch { /* Redis is away: SureM answers, and nothing is stored */ }

    // 2. SureM.
    const document = await load(hospitalId, code);

    // 3. Stored only if no pass has been here since step 1, and nobody was quicker.
    if (token !== undefined) {
      const value = keyv ? { value: document, expires: Date.now() + ttlMs } : document;
      await redis.store(entry, fence, token, JSON.stringify(value), ttlMs).catch(() => {});
    }
    return document;
  };
}

/** The document of an entry, bare or in keyv's envelope; undefined when it is neither. */
function read(value) {
  try {
    const entry = JSON.parse(value);
    if (typeof entry?.inspectionStatus === 'string') return entry;
    const enveloped = entry?.value;
    if (typeof enveloped?.inspectionStatus !== 'string') return undefined;
    return entry.expires == null || entry.expires > Date.now() ? enveloped : undefined;
  } catch {
    return undefined;
  }
}
