/**
 * TLS over a connection of a probe. Whether an endpoint is well is asked, not whether its TLS is up to date: old versions
 * and short keys are spoken, too, as clients that know it do. Who signed its certificate is not judged either.
 */
import { constants } from 'node:crypto';
import { isIP, type Socket } from 'node:net';
import { connect, createSecureContext, type SecureContext, type TLSSocket } from 'node:tls';
import { withoutGoodbye } from './connection.js';

/** Anything that this build of OpenSSL can speak. */
const LENIENT = {
  minVersion: 'TLSv1',
  ciphers: 'DEFAULT@SECLEVEL=0',
  secureOptions: constants.SSL_OP_LEGACY_SERVER_CONNECT,
} as const;

/** One for all: to make one takes longer than many a handshake. */
let shared: SecureContext | undefined;

function context(): SecureContext {
  if (shared !== undefined) return shared;
  try {
    shared = createSecureContext(LENIENT);
  } catch {
    // A build, or a policy of the system, that does not even know what is old.
    shared = createSecureContext();
  }
  return shared;
}

/** Begins it, asking for `name` and for one of `protocols`. To be closed by closing `raw` hard. */
export function shakeHands(raw: Socket, name: string | undefined, protocols?: string[]): TLSSocket {
  return withoutGoodbye(
    connect({
      socket: raw,
      rejectUnauthorized: false,
      secureContext: context(),
      servername: askedName(name),
      ...(protocols === undefined ? {} : { ALPNProtocols: protocols }),
    }),
  );
}

/** Empty for none: RFC 6066 s.3 has neither addresses nor the dot of the root. */
function askedName(name = ''): string {
  return isIP(name.replace(/^\[|\]$/g, '')) === 0 ? name.replace(/\.$/, '') : '';
}
