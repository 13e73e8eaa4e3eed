/** TLS: the endpoint passes when it shakes hands with a certificate that is good, and for the name that is asked for. */
import { PASS, type Probe } from './attempt.js';
import { judgeName, judgeValidity } from './certificate.js';
import { classify } from './classify.js';
import { attemptOver } from './connection.js';
import { shakeHands } from './handshake.js';

export const probeTls: Probe = (target, signal, tries) =>
  attemptOver(target, signal, tries, (settle) => (raw) => {
    const { address, tlsName } = target;
    const socket = shakeHands(raw, tlsName);
    socket.on('error', (error) => settle(classify(error, address)));
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerCertificate();
      settle(judgeName(target, certificate) ?? judgeValidity(certificate, Date.now(), target.minValidity) ?? PASS);
    });
  });
