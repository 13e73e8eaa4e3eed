/** holdfast behind systemd-resolved, in a network and with an /etc of their own: see front-resolved.ts. */
import { enterOwnNetwork } from './own-network.js';

const reason = enterOwnNetwork(import.meta.url);
const { behindResolved } = await import('./front-resolved.js');
await behindResolved(reason);
