/** Why a service could not be reached. Codes are a contract. */
import { type Endpoint, showEndpoint } from './endpoint.js';

/** How a try failed; the words of R20. */
export type Failure = 'refused' | 'reset' | 'timeout' | 'unreachable' | 'other';

/** One try that failed. */
export interface FailedTry {
  readonly address: string;
  readonly port: number;
  readonly failure: Failure;
  /** In the words of the system, or of TLS or HTTP. */
  readonly reason: string;
}

/** `HOLDFAST_NOT_FOUND`: a name server says that there is no such service. */
export class NotFoundError extends Error {
  override readonly name = 'NotFoundError';
  readonly code = 'HOLDFAST_NOT_FOUND';
}

/** `HOLDFAST_NO_ANSWER`: no name server gave an answer, and the service was never known. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
  readonly code = 'HOLDFAST_NO_ANSWER';
}

/** `HOLDFAST_UNREACHABLE`: every try failed, or the last one that was allowed. */
export class UnreachableError extends Error {
  override readonly name = 'UnreachableError';
  readonly code = 'HOLDFAST_UNREACHABLE';

  constructor(
    /** The service, as it was resolved. */
    readonly service: string,
    /** In the order of failing. */
    readonly attempts: readonly FailedTry[],
    why: string,
    options?: { readonly cause?: unknown },
  ) {
    super(`${service}: ${why}${attempts.length > 0 ? `: ${attempts.map(showTry).join('; ')}` : ''}`, options);
  }
}

/** `HOLDFAST_CLOSED`: the client was closed. */
export class ClosedError extends Error {
  override readonly name = 'ClosedError';
  readonly code = 'HOLDFAST_CLOSED';

  constructor() {
    super('the client is closed');
  }
}

function showTry(one: FailedTry): string {
  return `${showEndpoint(one)} ${one.failure} (${one.reason})`;
}

/** `other`: nothing that says that the endpoint is dead, such as a certificate that does not fit. */
export function failureOf(error: unknown): Failure {
  const code = codeOf(error);
  switch (code) {
    case 'ECONNREFUSED':
      return 'refused';
    case 'ECONNRESET':
    case 'EPIPE':
    case 'ECONNABORTED':
    case 'UND_ERR_SOCKET':
    case 'HPE_INVALID_EOF_STATE':
      return 'reset';
    case 'ETIMEDOUT':
    case 'UND_ERR_HEADERS_TIMEOUT':
    case 'UND_ERR_BODY_TIMEOUT':
      return 'timeout';
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'EHOSTDOWN':
    case 'ENETDOWN':
    case 'EADDRNOTAVAIL':
      return 'unreachable';
    default:
      return 'other';
  }
}

/** Faults of this process or host: no word on the endpoint (R15). */
export function isLocal(error: unknown): boolean {
  return ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL', 'EPERM', 'EACCES'].includes(codeOf(error) ?? '');
}

export function failedTry({ address, port }: Endpoint, failure: Failure, error: unknown): FailedTry {
  const reason = codeOf(error) ?? (error instanceof Error ? error.message : String(error));
  return { address, port, failure, reason };
}

function codeOf(error: unknown): string | undefined {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' ? code : undefined;
}
