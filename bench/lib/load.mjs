/** The clients: dnsperf as fast as it goes, and the asker at a steady rate. */

import { run } from './process.mjs';
import { CLIENT_CORE, which } from './system.mjs';

const CONNECTIONS = 4;
const OUTSTANDING = 200;

/**
 * Runs dnsperf. `seconds` of it, or each question once. Throws when it says nothing.
 * @returns queries that were sent, answered and lost, and queries a second
 */
export async function dnsperf(
  port,
  file,
  { seconds, outstanding = OUTSTANDING, edns = false, tcp = false, timeout = 5, rate, core = CLIENT_CORE } = {},
) {
  const args = [
    '-s',
    '127.0.0.1',
    '-p',
    port,
    '-d',
    file,
    '-c',
    CONNECTIONS,
    '-T',
    1,
    '-q',
    outstanding,
    '-t',
    timeout,
  ];
  if (seconds === undefined) args.push('-n', 1);
  else args.push('-l', seconds);
  if (rate !== undefined) args.push('-Q', rate);
  if (edns) args.push('-e');
  if (tcp) args.push('-m', 'tcp');
  const text = await run(which('dnsperf'), args.map(String), { core });
  const number = (label) => Number(new RegExp(`${label}:\\s+([\\d.]+)`).exec(text)?.[1] ?? Number.NaN);
  const result = {
    sent: number('Queries sent'),
    answered: number('Queries completed'),
    lost: number('Queries lost'),
    qps: number('Queries per second'),
    meanUs: number('Average Latency \\(s\\)') * 1e6,
    rcodes: Object.fromEntries(
      [...(/Response codes:(.*)/.exec(text)?.[1] ?? '').matchAll(/([A-Z]+) (\d+)/g)].map(([, name, n]) => [
        name,
        Number(n),
      ]),
    ),
  };
  if (Number.isNaN(result.answered)) throw new Error(`dnsperf said: ${text}`);
  return result;
}

/**
 * Asks at a steady rate, queries a second. `seconds` 0: each question once. `reference`: port of what is asked the same in
 * turn. See native/asker.c for what it returns.
 */
export async function askSteadily(
  bench,
  port,
  file,
  { rate, seconds, timeoutMs = 2000, edns = false, priority = 0, reference },
) {
  const args = [
    bench.tool('asker'),
    port,
    rate,
    seconds,
    timeoutMs,
    edns ? 1 : 0,
    file,
    ...(reference === undefined ? [] : [reference]),
  ];
  const text = await run('nice', ['-n', priority, ...args].map(String), { core: CLIENT_CORE });
  const json = text.split('\n').find((line) => line.startsWith('{'));
  if (json === undefined) throw new Error(`asker said: ${text}`);
  return JSON.parse(json);
}
