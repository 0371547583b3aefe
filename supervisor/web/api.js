// Talking to the daemon. Paths are relative to the page, so that it also works behind a proxy's prefix.

const BASE = new URL("api/v1/", document.baseURI);
const DEADLINE_MS = 15000;

/** The daemon did not answer, or something answered that is not the daemon. */
export class Unreachable extends Error {}

/** The daemon said no. Carries the fields of its problem+json. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The daemon answered ${status}.`);
    this.status = status;
    this.code = body.code ?? null;
    this.remedy = body.remedy ?? null;
    this.errors = body.errors ?? [];
  }
}

/** One thing that is polled: an answer that has not changed (304) costs no work on either side. */
export class Resource {
  #etag = null;
  #data = null;

  constructor(path) {
    this.path = path;
  }

  /** `{data, changed}`; throws Unreachable or Problem. */
  async get(signal) {
    const headers = this.#etag ? { "If-None-Match": this.#etag } : {};
    const answer = await send(this.path, { headers, signal });
    if (answer.status === 304) return { data: this.#data, changed: false };
    this.#data = await body(answer);
    this.#etag = answer.headers.get("ETag");
    return { data: this.#data, changed: true };
  }
}

/** The JSON at `path`. */
export async function get(path, signal) {
  return body(await send(path, { signal }));
}

/** Raw bytes with the answer's headers. */
export async function getBytes(path, signal) {
  const answer = await send(path, { signal });
  try {
    return { bytes: new Uint8Array(await answer.arrayBuffer()), headers: answer.headers };
  } catch (error) {
    throw new Unreachable(String(error));
  }
}

/** An unsafe call; the header proves to the daemon that this page, not a foreign one, sends it. */
export async function post(path, data = {}) {
  return body(
    await send(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Vigil-CSRF": "1" },
      body: JSON.stringify(data),
    }),
  );
}

/** The path of a run, or of something below it. */
export function runPath(run, rest = "") {
  return `runs/${encodeURIComponent(run)}${rest}`;
}

async function send(path, { signal, ...options }) {
  const deadline = AbortSignal.timeout(DEADLINE_MS);
  let answer;
  try {
    answer = await fetch(new URL(path, BASE), {
      credentials: "same-origin",
      redirect: "error",
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      ...options,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable(String(error));
  }
  if (answer.ok || answer.status === 304) return answer;
  throw await refusal(answer);
}

async function refusal(answer) {
  const type = answer.headers.get("Content-Type") ?? "";
  if (type.includes("json")) {
    const problem = await answer.json().catch(() => ({}));
    return new Problem(answer.status, problem && typeof problem === "object" ? problem : {});
  }
  // A proxy in front of a daemon that is away answers 502 to 504 in its own words.
  return answer.status >= 502 ? new Unreachable(`status ${answer.status}`) : new Problem(answer.status, {});
}

async function body(answer) {
  if (answer.status === 204) return null;
  try {
    return await answer.json();
  } catch (error) {
    throw new Unreachable(String(error));
  }
}
