/** Who is at the other end of a Unix socket, by SO_PEERCRED: through koffi, where there is one. */
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { endianness } from 'node:os';

const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
/** `struct ucred`: pid, uid, gid, 4 bytes each. */
const UCRED_BYTES = 12;
const UID_AT = 4;

type GetSockOpt = (fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array) => number;

let getsockopt: GetSockOpt | null | undefined;

/** The user at the other end; undefined where the system does not tell. */
export function peerUid(socket: Socket): number | undefined {
  if (getsockopt === undefined) getsockopt = load();
  const fd = (socket as { _handle?: { fd?: unknown } | null })._handle?.fd;
  if (getsockopt === null || typeof fd !== 'number' || fd < 0) return undefined;
  const credentials = Buffer.alloc(UCRED_BYTES);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(UCRED_BYTES);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, length) !== 0) return undefined;
  return credentials.readUInt32LE(UID_AT);
}

function load(): GetSockOpt | null {
  if (process.platform !== 'linux' || endianness() !== 'LE') return null;
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
    return koffi.load(null).func('int getsockopt(int, int, int, void *, void *)') as GetSockOpt;
  } catch {
    return null;
  }
}
