/** Running the program to its end, and a resolver that is not one. */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { AdminSource, StatusDocument } from '../src/admin/documents.js';
import { Metrics } from '../src/admin/metrics.js';
import { root } from './root.js';

const LAUNCHER = join(root, 'bin', 'holdfast.js');

/** A short folder: the path of a socket has 107 bytes. */
export function shortDir(t: Test, files: Readonly<Record<string, string>> = {}): string {
  const dir = mkdtempSync(join(tmpdir(), 'hf-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  return dir;
}

/** What is kept on the machine that runs the tests is none of theirs. */
const NOWHERE = join(tmpdir(), `holdfast-test-${process.pid}`);

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the real launcher to its end. */
export function holdfast(...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [LAUNCHER, ...args], {
    env: { ...process.env, HOLDFAST_CONFIG: '', STATE_DIRECTORY: NOWHERE, RUNTIME_DIRECTORY: NOWHERE },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (texts.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (texts.err += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...texts }));
  });
}

export const CONFIG = `version: 1
listen: ["127.0.0.1:5399"]
runDir: run
stateDir: state
zones:
  - name: svc.internal
    registry: { type: file, path: services.yaml }
`;

export const STATUS: StatusDocument = {
  version: '9.8.7',
  pid: 42,
  started: '2020-01-01T00:00:00.000Z',
  uptimeMs: 90_000,
  state: 'degraded',
  problems: ['zone svc.internal: registry not heard \x1b[31m'],
  config: { file: '/etc/holdfast/holdfast.yaml', lastGood: true, error: 'bad key' },
  listen: [{ address: '::1', port: 53, udp: 'up', tcp: 'retrying', error: 'in use' }],
  transport: 'batched',
  prober: { state: 'stale', targets: 3, lastHeardMs: 65_000 },
  zones: [
    {
      name: 'svc.internal',
      state: 'stale',
      heard: false,
      reason: 'gone',
      since: '2020-01-01T10:00:00.000Z',
      lastConfirmedMs: 61_000,
      registry: 'file /x',
      registries: [
        {
          registry: 'file /x',
          heard: false,
          reason: 'gone',
          since: '2020-01-01T10:00:00.000Z',
          lastConfirmedMs: 61_000,
          source: 'snapshot',
          stale: true,
          services: 2,
          endpoints: 5,
          rejectedCount: 1,
          once: 0,
        },
      ],
      source: 'snapshot',
      services: 2,
      endpoints: 5,
      answered: 4,
      heldBack: 1,
      ejected: 0,
      drained: 1,
      guarded: 2,
      guard: { zone: true, services: ['orders'], alarm: true },
      floor: ['billing'],
      withheld: ['users'],
      rejected: [{ where: 'services.yaml:4', reason: 'bad port' }],
      rejectedCount: 1,
      unnamed: [],
      unnamedCount: 0,
      hosts: [],
      conflicts: [],
      checks: 'on',
      softTtlMs: 10_000,
    },
  ],
};

/** A resolver that is not one: what it is asked is kept in `asked`. */
export function fakeSource(status: StatusDocument, asked: unknown[] = []): AdminSource {
  const metrics = new Metrics({
    status: () => status,
    counters: () => ({
      queries: [{ transport: 'udp', count: 5 }],
      types: [{ type: 'SRV', count: 4 }],
      responses: [{ rcode: 'NOERROR', count: 5 }],
      drops: [{ reason: 'loop', count: 2 }],
      forwardKept: 0,
      probes: { pass: 7, refused: 1 },
      forwardKeptStale: 0,
      reports: { known: 4, unknown: 1, ejections: 2 },
      staleAnswers: 3,
      reloads: { ok: 1, failed: 2 },
      workerRestarts: 0,
      snapshots: [{ zone: 'svc.internal', ageMs: 1500, problems: 1 }],
      latency: { bounds: [0.001, 0.01], counts: [3, 2, 1], sum: 0.25 },
    }),
  });
  return {
    status: () => status,
    drain: async (name, zone, undo) => {
      asked.push({ name, zone, undo });
      const unsaved = zone === 'full' ? { unsaved: 'ENOSPC' } : {};
      return name === 'nobody'
        ? { unknown: 'no zone has nobody' }
        : { endpoints: 2, changed: undo ? 0 : 2, answered: 1, ...unsaved };
    },
    reported: (reports) => {
      asked.push(...reports);
    },
    services: () => [],
    explain: (name, type) => {
      asked.push({ name, type });
      return {
        name,
        type,
        zone: 'svc.internal',
        service: 'orders',
        outcome: 'answer',
        because: ['one of two is answered'],
        stale: true,
        endpoints: [
          {
            id: 'orders-1',
            address: '10.0.0.1',
            port: 8081,
            protocol: 'tcp',
            priority: 0,
            weight: 1,
            tags: [],
            word: 'listed',
            probe: 'passes',
            answered: true,
            why: 'answered (R10)',
            lastResultMs: 400,
            lastSuccessMs: 400,
          },
          {
            id: 'orders-2',
            address: 'fd00::2',
            port: 8081,
            protocol: 'tcp',
            priority: 0,
            weight: 1,
            tags: [],
            word: 'listed',
            probe: 'fails',
            answered: false,
            why: 'held back (R10)',
            lastResultMs: 900,
            failingForMs: 7_500_000,
            lastFailure: 'ECONNREFUSED',
          },
        ],
      };
    },
    ready: () => ({ ready: false, problems: ['zone svc.internal has no data'] }),
    accept: async (name, zone) => {
      asked.push({ accept: name, zone });
      if (zone === 'other') return { unknown: 'there is no zone other' };
      if (zone === 'odd') return {} as { released: number };
      const unsaved = zone === 'full' ? { unsaved: 'ENOSPC' } : {};
      return { released: name === 'orders' ? 2 : 0, ...unsaved };
    },
    metrics: () => metrics.text(),
  };
}
