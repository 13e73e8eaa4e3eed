/** Text for people: colours only where they are wanted, columns, ages. */

export type Paint = (text: string) => string;

export interface Style {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly good: Paint;
  readonly warn: Paint;
  readonly bad: Paint;
}

/** Colours on a terminal, never with `NO_COLOR` set (no-color.org). */
export function styleFor(
  stream: { readonly isTTY?: boolean } = process.stdout,
  env: NodeJS.ProcessEnv = process.env,
): Style {
  const colored = stream.isTTY === true && (env.NO_COLOR ?? '') === '' && env.TERM !== 'dumb';
  const paint =
    (code: number): Paint =>
    (text) =>
      colored ? `\x1b[${code}m${text}\x1b[0m` : text;
  return { bold: paint(1), dim: paint(2), good: paint(32), warn: paint(33), bad: paint(31) };
}

/** Data from elsewhere must not drive the terminal it is shown on. */
export function plain(text: string): string {
  return text.replace(/[\x00-\x1f\x7f-\x9f]/g, '?');
}

const ANSI = /\x1b\[\d+m/g;

/** Columns aligned by what is visible of them. The last one is not filled up. */
export function table(rows: readonly (readonly string[])[], indent = ''): string {
  const widths: number[] = [];
  for (const row of rows) {
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.replace(ANSI, '').length);
    });
  }
  const fill = (cell: string, width: number) => cell + ' '.repeat(Math.max(0, width - cell.replace(ANSI, '').length));
  return rows
    .map((row) =>
      (indent + row.map((cell, i) => (i === row.length - 1 ? cell : fill(cell, widths[i]!))).join('  ')).trimEnd(),
    )
    .join('\n');
}

/** An age for people: `3s`, `12m`, `5h`, `2d`, with the next smaller unit where it tells something. */
export function age(ms: number | undefined): string {
  if (ms === undefined) return '-';
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 1) return `${Math.max(0, Math.round(ms))}ms`;
  if (s < 120) return `${s}s`;
  const m = Math.floor(s / 60);
  if (m < 120) return `${m}m`;
  const h = Math.floor(m / 60);
  return h < 48 ? `${h}h ${m % 60}m` : `${Math.floor(h / 24)}d ${h % 24}h`;
}

/** `14:02:11 (12m ago)` from an ISO time. */
export function since(iso: string, now: number): string {
  const wall = Date.parse(iso);
  if (Number.isNaN(wall)) return plain(iso);
  const date = new Date(wall);
  const day = now - wall > 20 * 3_600_000 ? `${date.toISOString().slice(0, 10)} ` : '';
  return `${day}${date.toTimeString().slice(0, 8)} (${age(now - wall)} ago)`;
}
