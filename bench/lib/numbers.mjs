/** Medians, ratios, and numbers as people read them. */

export function median(values) {
  const sorted = values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  if (sorted.length === 0) return Number.NaN;
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** The median of the ratios of two series, round by round: what disturbs a round disturbs both. */
export function ratio(values, others) {
  return median(values.map((value, i) => value / others[i]));
}

export function us(value) {
  return Number.isFinite(value) ? value.toFixed(value < 100 ? 1 : 0) : '-';
}

export function ms(value) {
  return Number.isFinite(value) ? value.toFixed(value < 10 ? 1 : 0) : '-';
}

export function times(value) {
  return Number.isFinite(value) ? value.toFixed(2) : '-';
}

export function mib(bytes) {
  return (bytes / 2 ** 20).toFixed(0);
}

export function count(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString('en-US') : '-';
}

export function percent(share) {
  return `${Number((share * 100).toFixed(2))} %`;
}
