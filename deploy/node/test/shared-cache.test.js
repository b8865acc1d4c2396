import assert from 'node:assert/strict';
import net from 'node:net';
import { after, test } from 'node:test';

import { connect, sharedCache } from '../shared-cache.js';
import * as world from './world.js';

const patient = { commandTimeout: 10_000 }; // a busy machine is no Redis that is away
const redis = connect(world.redisURL, patient);
after(() => redis.quit());

const key = (hospital, code) => `infotalk:template:{${hospital}}:${code}`;
const never = () => assert.fail('SureM was asked');

test('what the application stores is a hit of the syncer, and the other way round', async () => {
  await world.review('H001', 'OURS', { inspectionStatus: 'APPROVED', templateContent: ':) 예약\r\n<확인> & 안내 ' });
  await world.review('H001', 'THEIRS', { inspectionStatus: 'APPROVED', templateContent: ':) 예약\r\n<확인> & 안내 ' });
  const get = sharedCache(redis, { load: world.detail });

  const ours = await get('H001', 'OURS');
  const seen = await world.documents.read('H001', 'OURS');
  assert.equal(seen.via, 'hit');
  assert.deepEqual(seen.document, ours);
  assert.ok(await redis.pttl(key('H001', 'OURS')) > 86_000_000);

  const theirs = await world.documents.read('H001', 'THEIRS');
  assert.equal(theirs.via, 'fwd=miss; stored');
  assert.deepEqual(await sharedCache(redis, { load: never })('H001', 'THEIRS'), theirs.document);
});

test('the same with CACHE_VALUE_FORMAT=keyv', async () => {
  await world.review('H001', 'OURS', { inspectionStatus: 'APPROVED' });
  const options = { keyv: true, prefix: (hospital) => `keyv::keyv:infotalk:template:{${hospital}}:` };
  const ours = await sharedCache(redis, { load: world.detail, ...options })('H001', 'OURS');
  const seen = await world.keyv.read('H001', 'OURS');
  assert.equal(seen.via, 'hit');
  assert.deepEqual(seen.document, ours);
  assert.deepEqual(await sharedCache(redis, { load: never, ...options })('H001', 'OURS'), ours);
});

/** A load whose answer is held back: SureM has read the template, the caller has not got it. */
function heldBack() {
  let arrive, release;
  const arrived = new Promise((resolve) => { arrive = resolve; });
  const released = new Promise((resolve) => { release = resolve; });
  const load = async (hospital, code) => {
    const document = await world.detail(hospital, code);
    arrive();
    await released;
    return document;
  };
  return { load, arrived, release };
}

test('a load that began before a pass stores nothing', async () => {
  await world.review('H002', 'T1', { inspectionStatus: 'REQUESTED' });
  const slow = heldBack();
  const reading = sharedCache(redis, { load: slow.load })('H002', 'T1');
  await slow.arrived;
  await world.review('H002', 'T1', { inspectionStatus: 'APPROVED' });
  await world.documents.pass('H002'); // nothing is cached, so it has nothing to delete
  slow.release();
  assert.equal((await reading).inspectionStatus, 'REQUESTED'); // who asked before may have it
  assert.equal(await redis.exists(key('H002', 'T1')), 0);
  assert.equal((await world.documents.read('H002', 'T1')).document.inspectionStatus, 'APPROVED');
});

test('without the fence the same load puts a stale entry back, until the next pass', async () => {
  await world.review('H003', 'T1', { inspectionStatus: 'REQUESTED' });
  const slow = heldBack();
  const reading = slow.load('H003', 'T1').then((document) => redis.set(key('H003', 'T1'), JSON.stringify(document), 'PX', 60_000));
  await slow.arrived;
  await world.review('H003', 'T1', { inspectionStatus: 'APPROVED' });
  await world.documents.pass('H003');
  slow.release();
  await reading;
  assert.equal((await world.documents.read('H003', 'T1')).document.inspectionStatus, 'REQUESTED');
  const report = await world.documents.pass('H003');
  assert.deepEqual(report.invalidated.map((i) => [i.templateCode, i.reason]), [['T1', 'status']]);
  assert.equal((await world.documents.read('H003', 'T1')).document.inspectionStatus, 'APPROVED');
});

test('nobody overwrites an entry that is there', async () => {
  await world.review('H004', 'T1', { inspectionStatus: 'APPROVED' });
  const slow = heldBack();
  const reading = sharedCache(redis, { load: slow.load })('H004', 'T1');
  await slow.arrived;
  await redis.set(key('H004', 'T1'), 'whatever stands there');
  slow.release();
  await reading;
  assert.equal(await redis.get(key('H004', 'T1')), 'whatever stands there');
});

test('a look whose reply was lost is not sent again', async () => {
  await world.review('H005', 'T1', { inspectionStatus: 'APPROVED' });
  const { hostname, port } = new URL(world.redisURL);
  let cuts = 0;
  const proxy = net.createServer((client) => { // cuts the first connection once the script has run
    const server = net.connect({ host: hostname, port: Number(port) });
    let looked = false;
    client.on('data', (data) => { looked ||= /eval/i.test(data.toString('latin1')); server.write(data); });
    server.on('data', (data) => {
      if (looked && cuts === 0 && !data.toString('latin1').startsWith('-NOSCRIPT')) {
        cuts++;
        client.destroy();
        server.destroy();
      } else {
        client.write(data);
      }
    });
    for (const [a, b] of [[client, server], [server, client]]) {
      a.on('error', () => {});
      a.on('close', () => b.destroy());
    }
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const through = connect(`redis://127.0.0.1:${proxy.address().port}`, patient);
  through.on('error', () => {});
  try {
    await through.ping();
    await redis.config('RESETSTAT');
    const document = await sharedCache(through, { load: world.detail })('H005', 'T1');
    assert.equal(document.inspectionStatus, 'APPROVED');
    assert.equal(cuts, 1);
    await through.ping(); // connected again: what is sent again has been
    const stats = await redis.info('commandstats');
    assert.equal(stats.match(/cmdstat_eval(sha)?:calls=(\d+),usec=\d+,usec_per_call=[\d.]+,rejected_calls=0,failed_calls=0/)?.[2], '1', stats);
    assert.equal(await redis.exists(key('H005', 'T1')), 0);
  } finally {
    through.disconnect();
    proxy.close();
  }
});

test('with Redis away reads go on', async () => {
  await world.review('H001', 'AWAY', { inspectionStatus: 'APPROVED' });
  const away = connect('redis://127.0.0.1:1', { retryStrategy: () => null });
  away.on('error', () => {});
  const document = await sharedCache(away, { load: world.detail })('H001', 'AWAY');
  assert.equal(document.inspectionStatus, 'APPROVED');
  away.disconnect();
});
