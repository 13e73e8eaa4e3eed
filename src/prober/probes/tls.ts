/** TLS: the endpoint passes when it shakes hands with a certificate that is good, and for the name that is asked for. */
import type { PeerCertificate } from 'node:tls';
import { PASS, type Probe } from './attempt.js';
import { judgeName, judgeValidity } from './certificate.js';
import { classify } from './classify.js';
import { attemptOver } from './connection.js';
import { shakeHands } from './handshake.js';

/**
 * What a server that demands a certificate of its clients says when it has shown its own (RFC 5246 s.7.4.6). With TLS 1.3
 * the handshake is over before it can say so: how old its TLS is must not decide.
 */
const WANTS_OURS =
  /_ALERT_(HANDSHAKE_FAILURE|NO_CERTIFICATE|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNKNOWN_CA|ACCESS_DENIED)$/;

export const probeTls: Probe = (target, signal, tries) =>
  attemptOver(target, signal, tries, (settle) => (raw) => {
    const { address, tlsName } = target;
    const socket = shakeHands(raw, tlsName);
    const judge = (certificate: PeerCertificate): void =>
      settle(judgeName(target, certificate) ?? judgeValidity(certificate, Date.now(), target.minValidity) ?? PASS);
    socket.on('error', (error: NodeJS.ErrnoException) => {
      const certificate = socket.getPeerCertificate();
      if (WANTS_OURS.test(error.code ?? '') && certificate?.subject !== undefined) judge(certificate);
      else settle(classify(error, address));
    });
    socket.once('secureConnect', () => judge(socket.getPeerCertificate()));
  });
