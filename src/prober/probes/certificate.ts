/** What a probe asks of a certificate: its name, and how long it is good. Who signed it is not judged. */
import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import type { Ms, WallMs } from '../../system/clock.js';
import type { Target } from '../feed.js';
import { failure, type Outcome } from './attempt.js';

/** R19: a failure when the certificate is for others than `tlsName`. */
export function judgeName({ tlsName }: Target, certificate: PeerCertificate): Outcome | undefined {
  if (tlsName === undefined) return undefined;
  if (certificate.subject === undefined) return failure('wrong-identity', 'no certificate');
  const wrong = checkServerIdentity(tlsName, certificate);
  return wrong === undefined ? undefined : failure('wrong-identity', `the certificate is not for ${tlsName}`);
}

/** A failure when it is not good yet, or will not be in `minValidity`. */
export function judgeValidity(certificate: PeerCertificate, now: WallMs, minValidity: Ms = 0): Outcome | undefined {
  if (certificate.valid_to === undefined) return failure('bad-status', 'no certificate');
  if (Date.parse(certificate.valid_from) > now)
    return failure('bad-status', `the certificate begins ${certificate.valid_from}`);
  if (Date.parse(certificate.valid_to) < now + minValidity)
    return failure('bad-status', `the certificate ends ${certificate.valid_to}`);
  return undefined;
}
