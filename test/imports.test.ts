import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import t from 'tap';
import { root } from './root.js';

/** The directions of docs/architecture.md: a folder imports from itself and from these. */
const BASE = ['dns', 'config', 'system'];
const UPSTREAM: Record<string, readonly string[]> = {
  system: [],
  dns: ['system'],
  config: ['dns', 'system'],
  registry: BASE,
  catalog: [...BASE, 'registry'],
  prober: BASE,
  health: [...BASE, 'registry', 'catalog', 'prober'],
  answers: [...BASE, 'registry', 'catalog', 'health'],
  server: [...BASE, 'answers'],
  forward: [...BASE, 'server'],
  registrar: [...BASE, 'registry', 'prober', 'health'],
  ask: BASE,
  client: [...BASE, 'ask'],
  admin: BASE,
  install: [...BASE, 'forward'],
  resolver: ['registry', 'catalog', 'prober', 'health', 'answers', 'server', 'forward', 'admin', ...BASE],
};
/** Folders at the end of the picture, which may import everything that is not one of them. */
const ENDS = ['cli', 'demo'];

/** What a thread on the query path must not load: each costs tens of milliseconds and megabytes a worker. */
const HEAVY = ['zod', 'pino', 'pino-pretty', 'fastify', 'commander', 'yaml', 'undici', 'prom-client', 'chokidar'];

const src = join(root, 'src');
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
  .sort();

interface Import {
  readonly from: string;
  readonly typeOnly: boolean;
}

function importsOf(text: string): Import[] {
  const found: Import[] = [];
  const code = text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
  for (const match of code.matchAll(/^\s*(?:import|export)\s+(type\s)?(?:[^'"`;]*?\sfrom\s+)?['"]([^'"]+)['"]/gm)) {
    found.push({ from: match[2] ?? '', typeOnly: match[1] !== undefined });
  }
  for (const match of code.matchAll(/\b(?:import|require|createRequire\([^)]*\))\(\s*['"]([^'"]+)['"]\s*\)/g)) {
    found.push({ from: match[1] ?? '', typeOnly: false });
  }
  for (const match of code.matchAll(/new URL\(\s*['"](\.{1,2}\/[^'"]+\.js)['"]\s*,\s*import\.meta\.url\s*\)/g)) {
    found.push({ from: `worker:${match[1] ?? ''}`, typeOnly: false });
  }
  return found;
}

const graph = new Map<string, Import[]>(files.map((file) => [file, importsOf(readFileSync(join(src, file), 'utf8'))]));

/** The file under src that a relative import means, or null for a package or a file outside src. */
function target(file: string, from: string): string | null {
  if (!from.startsWith('.')) return null;
  const path = normalize(join(dirname(file), from)).replace(/\.js$/, '.ts');
  return path.startsWith('..') ? null : path;
}

const folderOf = (file: string) => (file.includes('/') ? (file.split('/')[0] ?? '') : '');
const packageOf = (from: string) =>
  from.startsWith('@') ? from.split('/').slice(0, 2).join('/') : (from.split('/')[0] ?? '');

t.test('a folder imports only from folders upstream of it', async (t) => {
  t.ok(files.length > 5, 'there are sources to look at');
  const wrong: string[] = [];
  for (const [file, imports] of graph) {
    const folder = folderOf(file);
    if (folder !== '' && !ENDS.includes(folder) && !(folder in UPSTREAM)) wrong.push(`${folder}/ has no place here`);
    for (const { from } of imports) {
      const to = target(file, from.replace(/^worker:/, ''));
      if (to === null) continue;
      if (!graph.has(to)) wrong.push(`${file} imports ${from}, which is not there`);
      const toFolder = folderOf(to);
      if (folder === toFolder || folder === '') continue;
      const allowed = ENDS.includes(folder)
        ? !ENDS.includes(toFolder) || folder === 'cli'
        : UPSTREAM[folder]?.includes(toFolder);
      if (!allowed) wrong.push(`${file} imports ${to}`);
    }
  }
  t.same(wrong, []);
});

t.test('no file imports itself by a detour', async (t) => {
  const cycles: string[] = [];
  const state = new Map<string, 'open' | 'done'>();
  const visit = (file: string, path: string[]): void => {
    if (state.get(file) === 'done') return;
    if (state.get(file) === 'open') {
      cycles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
      return;
    }
    state.set(file, 'open');
    for (const { from, typeOnly } of graph.get(file) ?? []) {
      const to = typeOnly ? null : target(file, from);
      if (to !== null) visit(to, [...path, file]);
    }
    state.set(file, 'done');
  };
  for (const file of files) visit(file, []);
  t.same(cycles, []);
});

t.test('a worker thread loads no package that its work does not need', async (t) => {
  const entries = new Set<string>();
  for (const [file, imports] of graph) {
    for (const { from } of imports) {
      const to = from.startsWith('worker:') ? target(file, from.slice('worker:'.length)) : null;
      if (to !== null) entries.add(to);
    }
    if (/^server\/.*worker\.ts$/.test(file)) entries.add(file);
  }
  const heavy: string[] = [];
  for (const entry of [...entries].filter((file) => file.startsWith('server/'))) {
    const seen = new Set<string>();
    const queue = [entry];
    for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
      if (seen.has(file)) continue;
      seen.add(file);
      for (const { from, typeOnly } of graph.get(file) ?? []) {
        if (typeOnly || from.startsWith('worker:')) continue;
        const to = target(file, from);
        if (to !== null) queue.push(to);
        else if (HEAVY.includes(packageOf(from))) heavy.push(`${entry} loads ${from} by ${file}`);
      }
    }
  }
  t.same(heavy, []);
});

t.test('every dependency is used, declared, and pinned exactly', async (t) => {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const pinned = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.devDependencies };
  const loose = Object.entries<string>(pinned).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version));
  t.same(loose, [], 'exact versions only');
  t.equal(pinned.dns2, '3.1.1', 'a range would bring the version that a 12-byte datagram keeps busy for 345 ms');
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  t.equal(lock.packages['node_modules/dns2'].version, '3.1.1');

  const used = new Set<string>();
  for (const imports of graph.values()) {
    for (const { from } of imports) {
      if (!from.startsWith('.') && !from.startsWith('node:') && !from.startsWith('worker:')) used.add(packageOf(from));
    }
  }
  const runtime = Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies });
  t.same(
    [...used].filter((name) => !runtime.includes(name)),
    [],
    'everything imported by src is a dependency',
  );
  t.same(
    runtime.filter((name) => !used.has(name)),
    [],
    'every dependency is imported by src',
  );
});

t.test('no source is left that nobody reaches from the program or the library', async (t) => {
  const reached = new Set<string>();
  const queue = ['main.ts', 'serve-main.ts', 'client/index.ts'];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (reached.has(file)) continue;
    reached.add(file);
    for (const { from } of graph.get(file) ?? []) {
      const to = target(file, from.replace(/^worker:/, ''));
      if (to !== null) queue.push(to);
    }
  }
  t.same(
    files.filter((file) => !reached.has(file)).map((file) => relative(root, join(src, file))),
    [],
  );
});
