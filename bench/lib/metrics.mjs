/** What a running holdfast says of itself at its admin address. */
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** The text of `/metrics`. */
export function metrics(admin) {
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port: admin, path: '/metrics' }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve(text));
    })
      .on('error', reject)
      .end();
  });
}

/** The first value of a metric, by its name or more of the line; 0 when there is none. */
export async function metric(admin, name) {
  return valueIn(await metrics(admin), name);
}

export function valueIn(text, name) {
  const line = text.split('\n').find((one) => one.startsWith(name));
  return line === undefined ? 0 : Number(line.split(' ').at(-1));
}

/** The sum of all values whose line matches; the value is the pattern's first group. */
export function sumIn(text, pattern) {
  return [...text.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0);
}

/** Resolves when so many endpoints are probed and each has passed. */
export async function allPass(admin, endpoints) {
  const end = performance.now() + 60_000;
  for (;;) {
    const text = await metrics(admin).catch(() => '');
    const targets = valueIn(text, 'holdfast_prober_targets');
    const passes = valueIn(text, 'holdfast_probe_results_total{outcome="pass"}');
    if (targets === endpoints && passes >= endpoints) return;
    if (performance.now() > end) throw new Error(`only ${passes} passes of ${targets} endpoints`);
    await sleep(500);
  }
}

/** What a prober did so far: results as the resolver counts them, `failures` among them, its CPU in seconds. */
export async function proberReadings(admin, prober) {
  const text = await metrics(admin);
  return {
    at: performance.now(),
    cpu: prober.cpu(),
    results: sumIn(text, /^holdfast_probe_results_total\{outcome="[^"]*"\} (\d+)/gm),
    failures: sumIn(text, /^holdfast_probe_results_total\{outcome="(?!pass)[^"]*"\} (\d+)/gm),
    localErrors: sumIn(text, /^holdfast_prober_local_errors (\d+)/gm),
    heldBack: sumIn(text, /^holdfast_zone_endpoints_held_back\{[^}]*\} (\d+)/gm),
  };
}
