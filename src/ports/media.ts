// MediaStore: files of messages by reference. Histories, journals and outboxes hold the reference only, never the bytes.
// Content-addressed: a reference names what it is, so that a redelivery or a run that is resumed finds the file it knows.

export interface MediaFile {
  /** `media:<sha256><.extension>`. */
  ref: string;
  /** As get() will tell it: a picture's is seen from its bytes, whatever was said of it. */
  media_type: string;
  size: number;
  /** For people: without folders and control characters. */
  name?: string;
}

export interface MediaStore {
  /** Bytes; larger files are refused. Cap downloads by it. */
  maxBytes: number;
  /**
   * Keeps a file for `media.ttl_days` from now on; durable when it resolves. Idempotent: the same bytes, called the same,
   * give the same reference. Rejects with AppError 'media_refused' (too large, type not allowed; the detail is for people)
   * or 'storage_unavailable'.
   */
  put(file: { bytes: Uint8Array; media_type?: string; name?: string }): Promise<MediaFile>;
  /** Undefined: expired, or not one of ours (whatever the text is). Rejects with AppError 'storage_unavailable'. */
  get(ref: string): Promise<{ bytes: Buffer; media_type: string; size: number } | undefined>;
}
