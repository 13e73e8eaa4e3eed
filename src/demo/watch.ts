/** Looks at the demo from outside, by DNS questions and the status, and tells what has changed. */
import type { Explanation, StatusDocument, ZoneStatus } from '../admin/documents.js';
import { askControl } from '../ask/control.js';
import { askDns } from '../ask/dns.js';
import { TYPE } from '../dns/constants.js';
import { type Backend, type Stage, ZONE } from './stage.js';

/** What was seen of the whole at one moment. */
export interface Sight {
  /** By service: the names of the backends in the answer, or what came in place of one. */
  readonly answers: ReadonlyMap<string, { readonly backends: readonly string[]; readonly fault?: string }>;
  /** Absent when the status could not be had. */
  readonly zone?: ZoneStatus;
  readonly prober?: StatusDocument['prober']['state'];
}

export type Mood = 'good' | 'warn' | 'bad';
export interface News {
  readonly mood: Mood;
  readonly text: string;
}

export async function look(stage: Stage): Promise<Sight> {
  const services = [...new Set(stage.backends.map((backend) => backend.service))];
  const answers = await Promise.all(
    services.map(async (service) => [service, await answerOf(stage, service)] as const),
  );
  const status = await askControl(stage.runDir, '/v1/status');
  if (status.kind !== 'answer') return { answers: new Map(answers) };
  const { zones, prober } = status.body as StatusDocument;
  const zone = zones.find(({ name }) => name === ZONE);
  return { answers: new Map(answers), prober: prober.state, ...(zone ? { zone } : {}) };
}

async function answerOf(stage: Stage, service: string): Promise<{ backends: string[]; fault?: string }> {
  try {
    const { packet } = await askDns(
      { name: `${service}.${ZONE}`, type: TYPE.SRV },
      { server: stage.dns, tcp: false, timeoutMs: 2000 },
    );
    if (packet.header.rcode !== 0) return { backends: [], fault: `rcode ${packet.header.rcode}` };
    return { backends: namesOf(packet.answers, stage.backends) };
  } catch (error) {
    return { backends: [], fault: (error as Error).message };
  }
}

/** SRV targets are made of addresses (R23), so each record tells its backend. */
function namesOf(records: readonly object[], backends: readonly Backend[]): string[] {
  const srv = records as readonly { readonly type?: number; readonly target?: string; readonly port?: number }[];
  return backends
    .filter(({ address, port }) =>
      srv.some((record) => record.port === port && record.target === `${address.replaceAll('.', '-')}.ip.${ZONE}`),
    )
    .map(({ name }) => name);
}

/** What is new since the sight before. Reasons are the resolver's own words. */
export async function compare(stage: Stage, before: Sight, now: Sight): Promise<News[]> {
  const news: News[] = [];
  for (const [service, answer] of now.answers) {
    const earlier = before.answers.get(service);
    if (answer.fault !== earlier?.fault && answer.fault !== undefined) {
      news.push({ mood: 'bad', text: `${service}: no answer (${answer.fault})` });
      continue;
    }
    const left = earlier?.backends.filter((name) => !answer.backends.includes(name)) ?? [];
    const came = answer.backends.filter((name) => earlier && !earlier.backends.includes(name));
    for (const name of left)
      news.push({ mood: 'warn', text: `${name} left the answer${await reason(stage, service, name)}` });
    for (const name of came)
      news.push({ mood: 'good', text: `${name} is back in the answer${await reason(stage, service, name)}` });
  }
  news.push(...compareZones(before.zone, now.zone));
  if (before.prober !== now.prober && now.prober !== undefined) {
    if (now.prober === 'stale') news.push({ mood: 'bad', text: 'the prober is silent: its word runs out' });
    if (now.prober === 'ok' && before.prober === 'stale') news.push({ mood: 'good', text: 'the prober is back' });
  }
  return news;
}

function compareZones(before: ZoneStatus | undefined, now: ZoneStatus | undefined): News[] {
  if (!before || !now) return [];
  const news: News[] = [];
  if (before.heard && !now.heard) {
    const why = now.reason === undefined ? '' : ` (${now.reason})`;
    news.push({ mood: 'warn', text: `the registry is not heard any more${why}` });
    news.push({ mood: 'good', text: 'every answer stays; what is frozen is capacity: nothing new can be discovered' });
  }
  if (!before.heard && now.heard) news.push({ mood: 'good', text: 'the registry is heard again' });
  if (before.state !== 'stale' && now.state === 'stale') {
    news.push({ mood: 'warn', text: 'answers are stale now (EDE 3 tells clients), and are given all the same' });
  }
  if (before.state === 'stale' && now.state === 'fresh') news.push({ mood: 'good', text: 'answers are fresh again' });
  const floor = now.floor.filter((service) => !before.floor.includes(service));
  for (const service of floor) {
    news.push({ mood: 'warn', text: `nothing of ${service} is healthy: it is answered all the same (the floor, R11)` });
  }
  for (const service of now.guard.services.filter((name) => !before.guard.services.includes(name))) {
    news.push({ mood: 'warn', text: `the guard holds endpoints of ${service}: the registry lists suddenly much less` });
  }
  return news;
}

async function reason(stage: Stage, service: string, name: string): Promise<string> {
  const answer = await askControl(stage.runDir, `/v1/explain?name=${service}.${ZONE}&type=SRV`);
  if (answer.kind !== 'answer') return '';
  const endpoint = (answer.body as Explanation).endpoints.find(({ id }) => id === name);
  return endpoint ? `: ${endpoint.why}` : ': the registry does not list it';
}
