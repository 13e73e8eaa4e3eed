/** The file with a shared key of transfers, as `tsig-keygen` writes it, or in one line as `dig -y` takes it. */
import { nameToWire } from '../dns/names.js';
import type { Failure } from './adapter.js';
import { TSIG_ALGORITHMS, type TsigKey } from './dns-tsig.js';
import { MAX_SECRET_BYTES, readSmall, unusable } from './secret-files.js';

/** Reads it anew. A reason names the file and never what is in it. */
export async function readTsigKey(path: string): Promise<TsigKey | Failure> {
  const bytes = await readSmall(path, MAX_SECRET_BYTES);
  if (!Buffer.isBuffer(bytes)) return bytes;
  const key = parseTsigKey(bytes.toString('utf8'));
  return typeof key === 'string' ? unusable(path, key) : key;
}

/** The key, or what is wrong with it. */
export function parseTsigKey(text: string): TsigKey | string {
  // Two slashes may be a part of a secret, too: they begin a comment where they begin a line.
  const plain = text.replace(/\/\*.*?\*\//gs, '').replace(/#.*$|^\s*\/\/.*$/gm, '');
  const [, algorithm, name, secret] = /^\s*([\w-]+):([^\s:]+):(\S+)\s*$/.exec(plain) ?? fields(plain) ?? [];
  if (algorithm === undefined || name === undefined || secret === undefined) {
    return 'it is neither key "NAME" { algorithm ...; secret "..."; }; nor ALGORITHM:NAME:SECRET';
  }
  const lower = algorithm.toLowerCase();
  if (TSIG_ALGORITHMS[lower] === undefined) {
    return `its algorithm is none of ${Object.keys(TSIG_ALGORITHMS).join(', ')}`;
  }
  const own = name.toLowerCase().replace(/\.$/, '');
  if (!/^[\w.-]+$/.test(own) || nameToWire(own) === undefined) return 'its name is no domain name';
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(secret))
    return 'its secret is no base64';
  return { name: own, algorithm: lower, secret: Buffer.from(secret, 'base64') };
}

/** In the order of the short form. */
function fields(text: string): readonly (string | undefined)[] | undefined {
  const [, name, body] = /^\s*key\s+"?([^\s"{]+)"?\s*\{([^{}]*)\}\s*;?\s*$/.exec(text) ?? [];
  if (name === undefined || body === undefined) return undefined;
  const field = (word: string): string | undefined => new RegExp(`\\b${word}\\s+"?([^\\s";]+)"?\\s*;`).exec(body)?.[1];
  return [undefined, field('algorithm'), name, field('secret')];
}
