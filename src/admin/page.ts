/** The status page: one document without scripts and without anything from elsewhere. */
import { createHash } from 'node:crypto';
import { type StatusDocument, type ZoneStatus, zoneTitle } from './documents.js';

const STYLE = `
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{margin:2rem auto;max-width:70rem;padding:0 1rem}
h1{font-size:1.4rem}h1 span{font-weight:400;opacity:.7;font-size:1rem}
.ok{color:#1a7f37}.bad{color:#c62828}.warn{color:#b26a00}
.problems{border-left:4px solid #b26a00;padding:.5rem 2rem;background:#b26a0018;margin:1rem 0}
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884}
td.n,th.n{text-align:right}.dim{opacity:.7}
@media(prefers-color-scheme:dark){.ok{color:#57c26e}.bad{color:#ff7b72}.warn{color:#e3a64b}}
`;

/** Nothing but this page's own style may load, and nobody may frame it. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export function statusPage(status: StatusDocument): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>holdfast: ${status.state}</title><style>${STYLE}</style></head><body>
<h1><span class="${status.state === 'ok' ? 'ok' : 'warn'}">${status.state}</span> holdfast <span>${html(status.version)}, process ${status.pid}, started ${html(status.started)}</span></h1>
${status.problems.length === 0 ? '' : `<ul class="problems">${status.problems.map((problem) => `<li>${html(problem)}</li>`).join('')}</ul>`}
<table><thead><tr><th>zone<th>state<th>registry<th>confirmed<th class="n">services<th class="n">endpoints<th class="n">answered<th class="n">held back<th class="n">guarded<th>checks</tr></thead>
<tbody>${status.zones.map(zoneRow).join('')}</tbody></table>
<h2>Prober</h2><p class="${status.prober.state === 'ok' || status.prober.state === 'not-needed' ? 'ok' : 'bad'}">${status.prober.state}, ${status.prober.targets} targets</p>
<h2>Listening</h2><ul>${status.listen.map(listener).join('')}</ul>
<p class="dim">configuration ${html(status.config.file)}${status.config.lastGood ? ' (the last good one)' : ''}; transport ${html(status.transport)}; <a href="/metrics">metrics</a>, <a href="/v1/status">JSON</a></p>
</body></html>
`;
}

function zoneRow(zone: ZoneStatus): string {
  const numbers = [zone.services, zone.endpoints, zone.answered, zone.heldBack, zone.guarded];
  const confirmed = zone.lastConfirmedMs === undefined ? '-' : `${Math.round(zone.lastConfirmedMs / 1000)} s ago`;
  return `<tr><td>${html(zoneTitle(zone))}<td class="${zone.state === 'fresh' ? 'ok' : 'warn'}">${zone.state}<td class="${zone.heard ? 'ok' : 'warn'}">${zone.heard ? 'heard' : `not heard since ${html(zone.since)}`}<td>${confirmed}${numbers.map((n) => `<td class="n">${n}`).join('')}<td>${zone.checks}</tr>`;
}

function listener({ address, port, udp, tcp, error }: StatusDocument['listen'][number]): string {
  const host = address.includes(':') ? `[${address}]` : address;
  const up = udp === 'up' && tcp === 'up';
  return `<li class="${up ? 'ok' : 'bad'}">${html(host)}:${port} udp ${udp}, tcp ${tcp}${error === undefined ? '' : `: ${html(error)}`}</li>`;
}

function html(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
