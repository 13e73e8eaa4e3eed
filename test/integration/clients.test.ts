/** Clients as they are, in a network and with a resolv.conf of their own: see clients/matrix.ts. */
import { enterOwnNetwork } from './own-network.js';

const reason = enterOwnNetwork(import.meta.url);
const { matrix } = await import('./clients/matrix.js');
await matrix(reason);
