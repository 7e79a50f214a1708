// Files on the CDN are encrypted: AES-128 in ECB mode with PKCS #7 padding, each with a key of its own.
import { createCipheriv, createDecipheriv } from 'node:crypto';

const CIPHER = 'aes-128-ecb';
const KEY_BYTES = 16;

export function encrypt(bytes: Uint8Array, key: Uint8Array): Buffer {
  const cipher = createCipheriv(CIPHER, key, null);
  return Buffer.concat([cipher.update(bytes), cipher.final()]);
}

/** Throws if it was encrypted with another key, or cut. */
export function decrypt(bytes: Uint8Array, key: Uint8Array): Buffer {
  const decipher = createDecipheriv(CIPHER, key, null);
  return Buffer.concat([decipher.update(bytes), decipher.final()]);
}

/** Size after encryption: padding is always added. */
export const encryptedSize = (size: number): number => (Math.floor(size / KEY_BYTES) + 1) * KEY_BYTES;

/** A key comes as base64 of its 16 bytes, or of their 32 hexadecimal digits. Undefined: as neither. */
export function readKey(base64: string): Buffer | undefined {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length === KEY_BYTES) return bytes;
  return bytes.length === 2 * KEY_BYTES ? readHexKey(bytes.toString('latin1')) : undefined;
}

export const readHexKey = (hex: string): Buffer | undefined =>
  /^[0-9a-f]{32}$/i.test(hex) ? Buffer.from(hex, 'hex') : undefined;

/** As Tencent's own client writes it. */
export const writeKey = (key: Buffer): string => Buffer.from(key.toString('hex')).toString('base64');
