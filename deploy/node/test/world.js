// What the Go test that starts these has set up: a Redis, a SureM (the simulator), and two
// syncers that differ in CACHE_VALUE_FORMAT.
import assert from 'node:assert/strict';

const { REDIS_URL, SUREM_URL, SYNCER_DOCUMENT_URL, SYNCER_KEYV_URL } = process.env;
export const redisURL = REDIS_URL;

/** The sender key of a hospital. */
export const senderKey = (hospital) => `sender-${hospital}`;

/** Puts a template to SureM, or changes it. */
export async function review(hospital, code, fields) {
  const answer = await fetch(`${SUREM_URL}/_sim/templates/${senderKey(hospital)}/${encodeURIComponent(code)}`,
    { method: 'PUT', body: JSON.stringify(fields) });
  assert.ok(answer.ok, await answer.text());
}

let login;
/** SureM's detail call, as the application makes it. */
export async function detail(hospital, code) {
  login ??= fetch(`${SUREM_URL}/api/v1/auth/token`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ userCode: 'clinic', secretKey: 'secret' }),
  }).then((answer) => answer.json());
  const token = (await login).data.accessToken;
  const answer = await fetch(`${SUREM_URL}/api/v1/alimtalk/templates/${encodeURIComponent(code)}?senderKey=${senderKey(hospital)}`,
    { headers: { Authorization: `Bearer ${token}` } });
  const { code: result, message, data } = await answer.json();
  assert.equal(result, 'A0000', message);
  return data;
}

/** A syncer's HTTP API. */
const syncer = (url) => ({
  async read(hospital, code) {
    const answer = await fetch(`${url}/v1/hospitals/${hospital}/templates/${encodeURIComponent(code)}`);
    assert.equal(answer.status, 200);
    return { document: await answer.json(), via: answer.headers.get('Cache-Status').replace('alimtalk-syncer; ', '') };
  },
  async pass(hospital) {
    const answer = await fetch(`${url}/v1/hospitals/${hospital}/sync`, { method: 'POST' });
    assert.equal(answer.status, 200);
    return answer.json();
  },
});
export const documents = syncer(SYNCER_DOCUMENT_URL);
export const keyv = syncer(SYNCER_KEYV_URL);
