/** An Extended DNS Error as an EDNS option (RFC 8914 s.2). */
import { OPTION_EDE } from '../dns/constants.js';
import { putU16 } from './wire.js';

export interface Ede {
  readonly code: number;
  /** ASCII, at most 60 bytes (R26). */
  readonly text?: string;
}

export function edeOption(code: number, text = ''): Uint8Array {
  const option = new Uint8Array(6 + text.length);
  putU16(option, 0, OPTION_EDE);
  putU16(option, 2, 2 + text.length);
  putU16(option, 4, code);
  for (let i = 0; i < text.length; i++) option[6 + i] = text.charCodeAt(i);
  return option;
}
