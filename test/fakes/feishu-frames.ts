// The frames of Feishu's long connection, written by hand from their definition (proto2), so that the vendor's client is not
// tested against its own codec: Header {key = 1, value = 2}, Frame {SeqID = 1, LogID = 2, service = 3, method = 4, headers = 5,
// payload_encoding = 6, payload_type = 7, payload = 8, LogIDNew = 9}.

export interface Frame {
  service: number;
  /** 0: control, 1: data. */
  method: number;
  headers: Record<string, string>;
  payload: Buffer;
}

export function encodeFrame({ service, method, headers, payload }: Frame): Buffer {
  const parts = [number(1, 1), number(2, 1), number(3, service), number(4, method)];
  for (const [key, value] of Object.entries(headers)) {
    parts.push(bytes(5, Buffer.concat([bytes(1, Buffer.from(key)), bytes(2, Buffer.from(value))])));
  }
  parts.push(bytes(8, payload));
  return Buffer.concat(parts);
}

export function decodeFrame(data: Buffer): Frame {
  const frame: Frame = { service: 0, method: 0, headers: {}, payload: Buffer.alloc(0) };
  for (const { field, value } of fields(data)) {
    if (field === 3) frame.service = Number(value);
    else if (field === 4) frame.method = Number(value);
    else if (field === 5 && Buffer.isBuffer(value)) {
      const header = new Map([...fields(value)].map((one) => [one.field, String(one.value)]));
      frame.headers[header.get(1) ?? ''] = header.get(2) ?? '';
    } else if (field === 8 && Buffer.isBuffer(value)) frame.payload = value;
  }
  return frame;
}

function varint(value: number): Buffer {
  const out: number[] = [];
  let rest = value;
  while (rest > 127) {
    out.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  out.push(rest);
  return Buffer.from(out);
}

const number = (field: number, value: number): Buffer => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field: number, value: Buffer): Buffer =>
  Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

function* fields(data: Buffer): Generator<{ field: number; value: number | Buffer }> {
  let at = 0;
  const read = (): number => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = data[at++] ?? 0;
      value += (byte % 128) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < data.length) {
    const tag = read();
    const field = Math.floor(tag / 8);
    if (tag % 8 === 0) yield { field, value: read() };
    else {
      const length = read();
      yield { field, value: data.subarray(at, (at += length)) };
    }
  }
}
