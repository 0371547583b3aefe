// The page's frame: which view is shown, the banner, the login, the acts.

import { act, refusalWords } from "./acts.js";
import { h, paint } from "./dom.js";
import { clock, utc } from "./format.js";
import { freshness } from "./poll.js";
import { currentRoute, takeToken } from "./route.js";
import { RunView } from "./run.js";
import { RunsView } from "./runs.js";
import { logIn, loginForm, logOut } from "./session.js";

const main = document.getElementById("main");
const banner = document.getElementById("banner");
const crumbs = document.getElementById("crumbs");
const logout = document.getElementById("logout");
let view = null;

document.addEventListener("click", onClick);
window.addEventListener("hashchange", show);
freshness.addEventListener("change", tellFreshness);
await begin();

async function begin() {
  const token = takeToken();
  if (token) {
    try {
      await logIn(token);
    } catch (error) {
      askToken(error);
      return;
    }
  }
  show();
}

function show() {
  const late = takeToken();
  if (late) {
    logIn(late).then(show, askToken);
    return;
  }
  closeView();
  const route = currentRoute();
  paint(main, h("p", { class: "empty" }, "Loading…"));
  logout.hidden = false;
  named(route.view === "run" ? route.key : null);
  view = route.view === "run" ? new RunView(main, { key: route.key, refused, named }) : new RunsView(main, { refused });
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function closeView() {
  view?.close();
  view = null;
}

/** Says in title and head which run is shown, or that it is the list. */
function named(run, state = null) {
  document.title = `${run ? [run, state].filter(Boolean).join(": ") : "Runs"} · Vigil`;
  paint(crumbs, run && [h("a", { href: "#/" }, "Runs"), " / ", h("span", { "aria-current": "page" }, run)]);
}

/** Whether a Problem was one of the session, which the frame answers for every view alike. */
function refused(problem) {
  if (problem.status !== 401) return false;
  askToken();
  return true;
}

function askToken(error = null) {
  closeView();
  logout.hidden = true;
  paint(crumbs);
  document.title = "Log in · Vigil";
  loginForm(main, show, error);
}

function onClick(event) {
  const call = event.target.closest("[data-act]")?.dataset.act;
  if (call === "skip") {
    event.preventDefault();
    main.focus();
  } else if (call === "logout") {
    logOut().then(() => askToken(), (error) => tell(refusalWords(error)));
  } else if (call && view?.run) {
    act(call, view.run(), () => view?.refresh());
  }
}

function tellFreshness() {
  if (freshness.ok) {
    banner.hidden = true;
    return;
  }
  const seen = freshness.lastAnswer;
  tell(["The daemon does not answer. ", seen ? ["Stale since ", h("time", { datetime: seen.toISOString(), title: utc(seen) }, clock(seen)), "."] : "Nothing was loaded yet.", " The runs go on; this page asks again by itself."]);
}

function tell(words) {
  paint(banner, words);
  banner.hidden = false;
}
