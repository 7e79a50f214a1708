// The guard between URLs that strangers choose and the machines only we can reach (server-side request forgery).
// A request passes it when its scheme, its host, and every address that the host resolves to are allowed; the socket
// then goes to the very addresses that were checked, so a name that changes its mind in between gains nothing.
// Redirects are returned and never followed: a caller who follows one comes through here again.
import { lookup as systemLookup } from 'node:dns/promises';
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { orAbort } from '../time/or-abort.ts';

/** `message` says why, without the URL: it may hold a secret. */
export class UrlRefused extends Error {
  override readonly name = 'UrlRefused';
}

export interface ResolvedAddress {
  address: string;
  family: number;
}

export interface GuardOptions {
  /** Lets private and loopback addresses through. Link-local, metadata and the like stay refused. */
  allowPrivate: boolean;
  /** Default: the system's resolver. */
  resolve?: (hostname: string) => Promise<ResolvedAddress[]>;
}

interface GuardedRequest {
  method: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** The response's body is cut off there. */
  maxBytes: number;
  /** The only time limit there is: always give one that ends. */
  signal: AbortSignal;
}

export interface GuardedResponse {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export interface Guard {
  /** What can be told without DNS; throws UrlRefused. */
  check(url: string): URL;
  /** Rejects with UrlRefused, or with the error of the connection, or with the signal's reason. */
  request(url: string, request: GuardedRequest): Promise<GuardedResponse>;
}

export function createGuard(options: GuardOptions): Guard {
  const { allowPrivate } = options;
  const resolve = options.resolve ?? ((hostname) => systemLookup(hostname, { all: true, verbatim: true }));

  function checkAddress(address: string): void {
    const reason = refusalOf(address, allowPrivate);
    if (reason !== undefined) throw new UrlRefused(`the address is ${reason}`);
  }

  function check(text: string): URL {
    const url = URL.parse(text);
    if (!url) throw new UrlRefused('it is not a valid URL');
    if (url.protocol !== 'http:' && url.protocol !== 'https:')
      throw new UrlRefused('only http and https are allowed');
    if (url.username !== '' || url.password !== '')
      throw new UrlRefused('a user name or password in the URL is not allowed');
    // The URL parser has turned every odd notation (hexadecimal, octal, one number) into a dotted address by now.
    const host = hostOf(url);
    if (ipaddr.isValid(host)) checkAddress(host);
    else if (!allowPrivate && /(^|\.)localhost\.?$/.test(host))
      throw new UrlRefused('the address is loopback');
    return url;
  }

  const resolveChecked = async (hostname: string): Promise<ResolvedAddress[]> => {
    if (ipaddr.isValid(hostname)) return [];
    const addresses = await resolve(hostname);
    if (addresses.length === 0) throw new UrlRefused('the host has no address');
    // One bad address is enough: a name that points inside as well as outside is up to something.
    for (const { address } of addresses) checkAddress(address);
    return addresses;
  };

  return {
    check,
    async request(text, { method, headers, body, maxBytes, signal }) {
      const url = check(text);
      const addresses = await orAbort(resolveChecked(hostOf(url)), signal);
      // Where the socket goes; an address in the URL itself is used without asking, and was checked.
      const lookup: LookupFunction = (_hostname, { all }, callback) => {
        if (all) callback(null, addresses);
        else callback(null, addresses[0]!.address, addresses[0]!.family);
      };
      const send = url.protocol === 'https:' ? httpsRequest : httpRequest;
      const response = await new Promise<IncomingMessage>((done, failed) => {
        // No agent: a pooled socket would be one that was checked for another request.
        const request = send(url, { method, headers, lookup, signal, agent: false }, done);
        request.on('error', failed);
        request.end(body);
      });
      return {
        status: response.statusCode ?? 0,
        headers: response.headers,
        body: await readUpTo(response, maxBytes),
      };
    },
  };
}

async function readUpTo(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop early destroys the response and its socket.
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= maxBytes) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');

/** Refused whatever the settings say: they answer with credentials of the machine they run on. */
const METADATA = new Set([
  '169.254.169.254',
  '169.254.170.2',
  '100.100.100.200',
  '168.63.129.16',
  'fd00:ec2::23',
  'fd00:ec2::254',
  'fd20:ce::254',
]);
const PRIVATE = new Set(['private', 'loopback', 'uniqueLocal', 'carrierGradeNat']);
/** The only part of IPv6 that is assigned to the public internet (RFC 4291, RFC 3513). */
const GLOBAL_V6 = ipaddr.IPv6.parseCIDR('2000::/3');

/** Why the address is refused; undefined if it is allowed. */
export function refusalOf(address: string, allowPrivate: boolean): string | undefined {
  if (!ipaddr.isValid(address)) return 'not an IP address';
  // `process` turns an IPv4-mapped IPv6 address into the IPv4 address that the kernel would connect to.
  const ip = ipaddr.process(address);
  if (METADATA.has(ip.toString())) return 'a cloud metadata service';
  const range = ip.range();
  if (PRIVATE.has(range)) return allowPrivate ? undefined : range;
  if (range !== 'unicast') return range;
  if (ip instanceof ipaddr.IPv6 && !ip.match(GLOBAL_V6)) return 'not a global address';
  return undefined;
}
