// Logging in with a token, which the daemon trades for a cookie that scripts cannot read.

import { refusalWords } from "./acts.js";
import { post } from "./api.js";
import { h, paint } from "./dom.js";

/** Trades the token for the cookie; throws Problem or Unreachable. */
export async function logIn(token) {
  await post("login", { token: token.trim() });
}

/** Takes the cookie back. */
export async function logOut() {
  await post("logout");
}

/** The form in `host`; `done` is called when the daemon took the token. `error`: why an earlier try failed. */
export function loginForm(host, done, error = null) {
  if (host.querySelector("form.login") && !error) return;
  const field = h("input", { name: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false", id: "token" });
  const refusal = h("p", { class: "problem", role: "alert" }, error && refusalWords(error));
  const form = h(
    "form",
    { class: "card login" },
    h("h1", {}, "Log in"),
    h("label", { for: "token" }, "Token"),
    field,
    h("p", { class: "note" }, "The first one stands in ", h("code", {}, "admin.token"), " of the daemon's data folder."),
    refusal,
    h("button", { type: "submit", class: "primary" }, "Log in"),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await logIn(field.value);
      done();
    } catch (failure) {
      paint(refusal, refusalWords(failure));
      field.select();
    }
  });
  paint(host, form);
  field.focus();
}
