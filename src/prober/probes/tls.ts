/** TLS: the endpoint passes when it shakes hands with a certificate that is good, and for the name that is asked for. */
import { connect as connectTls } from 'node:tls';
import { attempt, PASS, type Probe } from './attempt.js';
import { judgeName, judgeValidity } from './certificate.js';
import { classify } from './classify.js';
import { closeHard, openConnection, withoutGoodbye } from './connection.js';

export const probeTls: Probe = (target, signal) =>
  attempt(target.timeout, signal, (settle) => {
    const { address, tlsName = '' } = target;
    const raw = openConnection(target, settle);
    const socket = withoutGoodbye(connectTls({ socket: raw, rejectUnauthorized: false, servername: tlsName }));
    socket.on('error', (error) => settle(classify(error, address)));
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerCertificate();
      settle(judgeName(target, certificate) ?? judgeValidity(certificate, Date.now(), target.minValidity) ?? PASS);
    });
    return () => closeHard(raw);
  });
