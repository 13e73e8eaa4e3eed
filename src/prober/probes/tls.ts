/** TLS: the endpoint passes when it shakes hands with a certificate that is good, and for the name that is asked for. */
import { connect as connectTls } from 'node:tls';
import { PASS, type Probe } from './attempt.js';
import { askedName, judgeName, judgeValidity } from './certificate.js';
import { classify } from './classify.js';
import { attemptOver, withoutGoodbye } from './connection.js';

export const probeTls: Probe = (target, signal, tries) =>
  attemptOver(target, signal, tries, (settle) => (raw) => {
    const { address, tlsName } = target;
    const socket = withoutGoodbye(
      connectTls({ socket: raw, rejectUnauthorized: false, servername: askedName(tlsName) }),
    );
    socket.on('error', (error) => settle(classify(error, address)));
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerCertificate();
      settle(judgeName(target, certificate) ?? judgeValidity(certificate, Date.now(), target.minValidity) ?? PASS);
    });
  });
