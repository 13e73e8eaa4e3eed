/** What goes wrong between here and a registry, in words that do not change from one try to the next. */
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'the host name cannot be resolved now',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'no connection in time',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  UND_ERR_HEADERS_TIMEOUT: 'no answer in time',
  UND_ERR_BODY_TIMEOUT: 'the answer stopped in the middle',
  UND_ERR_SOCKET: 'the connection was closed in the middle',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'the answer was cut',
  UND_ERR_HEADERS_OVERFLOW: 'headers too large',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  CERT_NOT_YET_VALID: 'the certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate is not signed by a known authority',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the certificate is not signed by a known authority',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the certificate is not signed by a known authority',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name',
};

const MAX_WORDS = 200;

export function isFailure(value: object): value is Failure {
  return 'reason' in value && 'kind' in value && (value.kind === 'unreachable' || value.kind === 'unbelievable');
}

/**
 * Text of a server as a reason may show it: one line, printable, of bearable length.
 * @param secrets what the server was told, and may repeat
 */
export function printable(text: string, secrets: readonly string[] = []): string {
  const line = secrets
    .reduce(withoutSecret, text)
    .replace(/[^\x20-\x7e]+/g, ' ')
    .trim();
  return line.length > MAX_WORDS ? `${line.slice(0, MAX_WORDS)}...` : line;
}

/** In whatever form it was repeated. */
function withoutSecret(text: string, secret: string): string {
  const bytes = Buffer.from(secret);
  const forms = [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), bytes.toString('base64')];
  return forms.reduce((rest, form) => rest.replaceAll(form, '...'), text);
}

/** A failed connection or a broken answer. */
export function requestFailure(error: unknown): Failure {
  return { kind: 'unreachable', reason: describe(error) };
}

function describe(error: unknown): string {
  const inner = error instanceof AggregateError ? error.errors[0] : error;
  const { code, cause, message } = (inner ?? {}) as { code?: unknown; cause?: { code?: unknown }; message?: unknown };
  for (const known of [code, cause?.code]) {
    if (typeof known !== 'string') continue;
    if (WORDS[known] !== undefined) return WORDS[known];
    if (known.startsWith('HPE_')) return 'the answer is not HTTP';
  }
  return printable(String(message ?? inner));
}

const STATUS_WORDS: Readonly<Record<number, string>> = {
  400: 'bad request',
  401: 'not authorized',
  403: 'forbidden',
  404: 'not found',
  429: 'too many requests',
  500: 'server error',
  502: 'bad gateway',
  503: 'not available',
  504: 'gateway timeout',
};
/** A server may ask for no longer a wait. */
const MAX_RETRY_AFTER_MS: Ms = 300_000;

/** A status that is no answer. `Retry-After` is heeded in seconds; as a date it would be the server's clock against ours. */
export function statusFailure(status: number, retryAfter: string | undefined, detail = ''): Failure {
  const words = detail === '' ? (STATUS_WORDS[status] ?? '') : printable(detail);
  const reason = `status ${status}${words === '' ? '' : ` (${words})`}`;
  const seconds = retryAfter !== undefined && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : 0;
  if (seconds === 0 || (status !== 429 && status !== 503)) return { kind: 'unreachable', reason };
  return { kind: 'unreachable', reason, retryAfter: Math.min(seconds * 1000, MAX_RETRY_AFTER_MS) };
}
