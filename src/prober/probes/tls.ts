/** TLS: the endpoint passes when it shakes hands with a certificate that is good, and for the name that is asked for. */
import { connect } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { attempt, closeHard, failure, PASS, type Probe, withoutGoodbye } from './attempt.js';
import { judgeName, judgeValidity } from './certificate.js';
import { classify } from './classify.js';
import { metItself } from './tcp.js';

export const probeTls: Probe = (target, signal) =>
  attempt(target.timeout, signal, (settle) => {
    const { address, port, tlsName = '' } = target;
    const raw = withoutGoodbye(connect({ host: address, port }));
    raw.on('error', (error) => settle(classify(error, address)));
    raw.once('connect', () => {
      if (metItself(raw)) settle(failure('refused', 'nobody listens'));
    });
    const socket = withoutGoodbye(connectTls({ socket: raw, rejectUnauthorized: false, servername: tlsName }));
    socket.on('error', (error) => settle(classify(error, address)));
    socket.once('secureConnect', () => {
      const certificate = socket.getPeerCertificate();
      settle(judgeName(target, certificate) ?? judgeValidity(certificate, Date.now(), target.minValidity) ?? PASS);
    });
    return () => closeHard(raw);
  });
