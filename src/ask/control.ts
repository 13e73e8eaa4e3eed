/** Asks the running resolver over its sockets (R36). */
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { foreignFolder } from '../system/own-folder.js';

const TIMEOUT_MS = 5000;
const MAX_BODY_BYTES = 64 * 1024 * 1024;

export type ControlAnswer =
  | { readonly kind: 'answer'; readonly body: unknown; readonly from: 'control' | 'public' }
  /** The resolver understood and refused: its own words. */
  | { readonly kind: 'refused'; readonly error: string }
  | { readonly kind: 'not-running'; readonly error: string }
  | { readonly kind: 'failed'; readonly error: string };

/** GET without `body`, POST with one. `orPublic`: a user who may not operate gets the abridged document. */
export async function askControl(
  runDir: string,
  path: string,
  options: { readonly body?: unknown; readonly orPublic?: boolean } = {},
): Promise<ControlAnswer> {
  const foreign = await foreignFolder(runDir);
  if (foreign !== undefined) return { kind: 'failed', error: foreign };
  const socket = join(runDir, 'control.sock');
  const answer = await ask(socket, path, options.body, 'control');
  if (answer !== 'denied') return answer;
  if (options.orPublic) {
    const abridged = await ask(join(runDir, 'public.sock'), path, options.body, 'public');
    if (abridged !== 'denied') return abridged;
  }
  return { kind: 'failed', error: `permission denied at ${socket}: run this as root or as a user of its group` };
}

async function ask(
  socketPath: string,
  path: string,
  body: unknown,
  from: 'control' | 'public',
): Promise<ControlAnswer | 'denied'> {
  const dispatcher = new Agent({ connect: { socketPath, timeout: TIMEOUT_MS } });
  try {
    const response = await request(`http://localhost${path}`, {
      dispatcher,
      method: body === undefined ? 'GET' : 'POST',
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const document = await readJson(response.body);
    if (response.statusCode < 400) return { kind: 'answer', body: document, from };
    const error = (document as { error?: unknown } | null)?.error;
    return { kind: 'refused', error: typeof error === 'string' ? error : `HTTP ${response.statusCode}` };
  } catch (error) {
    return failure(error as NodeJS.ErrnoException, socketPath);
  } finally {
    void dispatcher.destroy().catch(() => {});
  }
}

async function readJson(stream: AsyncIterable<Buffer>): Promise<unknown> {
  const chunks: Buffer[] = [];
  let total = 0;
  for await (const chunk of stream) {
    total += chunk.length;
    if (total > MAX_BODY_BYTES) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'));
}

function failure(error: NodeJS.ErrnoException, socket: string): ControlAnswer | 'denied' {
  switch (error.code) {
    case 'ENOENT':
    case 'ECONNREFUSED':
    case 'ENOTDIR':
      return { kind: 'not-running', error: `no answer at ${socket}: is \`holdfast serve\` running?` };
    case 'EACCES':
    case 'EPERM':
      return 'denied';
    default:
      if (error.name === 'TimeoutError') {
        return {
          kind: 'failed',
          error: `no answer at ${socket} within ${TIMEOUT_MS / 1000}s: the resolver is there but busy or stopped`,
        };
      }
      return { kind: 'failed', error: `${socket}: ${error.message}` };
  }
}
