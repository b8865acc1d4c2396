// The real npm packages, as a NestJS application has them, on the syncer's entries.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import KeyvRedis, { createKeyv } from '@keyv/redis';
import { createCache } from 'cache-manager';
import { Redis } from 'ioredis';
import { Keyv } from 'keyv';

import * as world from './world.js';

const redis = new Redis(world.redisURL);
// Plain JSON: Keyv's own serializer changes texts that begin with a colon.
const plain = { serialize: JSON.stringify, deserialize: JSON.parse };
const cache = createCache({ stores: [new Keyv({ store: new KeyvRedis(world.redisURL), ...plain })] });
after(() => Promise.all([redis.quit(), cache.disconnect()]));

const name = (hospital, code) => `infotalk:template:{${hospital}}:${code}`;
const day = 86_400_000;
const text = ':) 예약\r\n<확인> & \u00a0안내 ';

test('what cache-manager stores is a hit of the syncer', async () => {
  await world.review('H001', 'OURS', { inspectionStatus: 'APPROVED', templateContent: text });
  const document = await world.detail('H001', 'OURS');
  assert.equal(document.templateContent, text);
  await cache.set(name('H001', 'OURS'), document, day);
  const seen = await world.keyv.read('H001', 'OURS');
  assert.equal(seen.via, 'hit');
  assert.deepEqual(seen.document, document);
});

test('what the syncer stores is a hit of cache-manager', async () => {
  await world.review('H001', 'THEIRS', { inspectionStatus: 'APPROVED', templateContent: text });
  const seen = await world.keyv.read('H001', 'THEIRS');
  assert.equal(seen.via, 'fwd=miss; stored');
  assert.deepEqual(await cache.get(name('H001', 'THEIRS')), seen.document);
  const left = await cache.ttl(name('H001', 'THEIRS')) - Date.now();
  assert.ok(left > day - 60_000 && left <= day, `${left} ms`);
});

test('a pass deletes what cache-manager holds in an old state, and keeps what agrees', async () => {
  for (const code of ['OLD', 'SAME']) {
    await world.review('H002', code, { inspectionStatus: 'REQUESTED' });
    await cache.set(name('H002', code), await world.detail('H002', code), day);
  }
  await world.review('H002', 'OLD', { inspectionStatus: 'APPROVED' });
  const report = await world.keyv.pass('H002');
  assert.deepEqual(report.invalidated.map((i) => [i.templateCode, i.from, i.to]), [['OLD', 'REQUESTED', 'APPROVED']]);
  assert.equal(await cache.get(name('H002', 'OLD')), undefined);
  assert.equal((await cache.get(name('H002', 'SAME'))).inspectionStatus, 'REQUESTED');
});

test('new Keyv() puts keyv::keyv: before its keys, createKeyv() nothing', async () => {
  const bare = createCache({ stores: [createKeyv(world.redisURL)] });
  await cache.set('probe', 1, 60_000);
  await bare.set('probe', 1, 60_000);
  assert.equal(await redis.exists('keyv::keyv:probe'), 1);
  assert.equal(await redis.exists('probe'), 1);
  await bare.disconnect();
});

test("Keyv's own serializer changes texts that begin with a colon", async () => {
  const own = createCache({ stores: [new Keyv({ store: new KeyvRedis(world.redisURL) })] });
  await own.set('colon', { text }, 60_000);
  assert.ok((await redis.get('keyv::keyv:colon')).includes('"::) 예약'));
  await own.disconnect();
});
