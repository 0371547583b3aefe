// Addresses within the page: `#/` is the list, `#/runs/NAME-OR-ID` one run, `#token=…` logs in once.

/** The address of a run's page. */
export function runAddress(run) {
  return `#/runs/${encodeURIComponent(run.id)}`;
}

/** Where the address bar points: `{view: "runs"}` or `{view: "run", key}`. */
export function currentRoute(hash = location.hash) {
  const match = /^#\/runs\/([^/?]+)/.exec(hash);
  return match ? { view: "run", key: decoded(match[1]) } : { view: "runs" };
}

/** A token that came by the address; it is taken out of the address bar and of the history at once. */
export function takeToken() {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (!match) return null;
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  return decoded(match[1]);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
