/**
 * Asks the service `orders` of `svc.internal` 20 times a second, and says each second how it went:
 * `node docs/examples/client.mjs [NAMESERVER [SECONDS]]`. Ends with 1 when a request was lost.
 */
import { ServiceClient } from 'holdfast/client';

const [nameserver = '127.0.0.1:5300', seconds = 'Infinity'] = process.argv.slice(2);
const client = new ServiceClient({ zone: 'svc.internal', nameserver });
const total = { asked: 0, lost: 0 };
let by = {};

async function ask() {
  total.asked++;
  try {
    const response = await client.fetch('http://orders/');
    const who = (await response.text()).trim();
    by[who] = (by[who] ?? 0) + 1;
  } catch (error) {
    total.lost++;
    console.log(error.cause?.message ?? error.message);
  }
}

const asking = setInterval(ask, 50);
const saying = setInterval(() => {
  const [known] = client.status().services;
  const list = known?.failure ? `, with the list of ${Math.round(known.age / 1000)}s ago` : '';
  console.log(`asked ${total.asked}, lost ${total.lost}; the last second:`, by, list);
  by = {};
}, 1000);

function end() {
  clearInterval(asking);
  clearInterval(saying);
  process.exitCode = total.lost > 0 ? 1 : 0;
}
process.once('SIGINT', end);
if (seconds !== 'Infinity') setTimeout(end, Number(seconds) * 1000);
