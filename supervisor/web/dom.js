// Building and repainting the document. Everything that comes from outside becomes text, never markup:
// run names, log lines and screens are written by programs that we do not trust.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children. null, undefined and false are left out; strings become text. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An icon from the paths of icons.js; it is decoration, the word beside it carries the meaning. */
export function icon(path, kind = "") {
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  const picture = document.createElementNS(SVG, "svg");
  picture.append(shape);
  return fill(picture, { class: `icon ${kind}`.trim(), viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, []);
}

/**
 * Makes `parent` hold `next`, changing only what differs: focus, text selection and opened details survive a poll.
 * Children with the same data-key are the same thing. An element with data-island is filled by its owner alone.
 */
export function paint(parent, ...next) {
  reconcile(parent, next.flat(Infinity).filter(shown).map(node));
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (!shown(value)) continue;
    if (name === "style" || name.startsWith("on")) throw new Error(`${name} is not set from here`);
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter(shown).map(node));
  return element;
}

function shown(value) {
  return value !== null && value !== undefined && value !== false;
}

function node(value) {
  return value instanceof Node ? value : document.createTextNode(String(value));
}

function reconcile(parent, next) {
  const keyed = new Map();
  for (const child of parent.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  const needed = new Set(next.map((wanted) => wanted.dataset?.key).filter(Boolean));
  let at = parent.firstChild;
  for (const wanted of next) {
    const old = counterpart(wanted, keyed, at);
    if (!old) {
      parent.insertBefore(wanted, at);
      continue;
    }
    // What stands before it and is not wanted goes, so that what stays need not be moved: moving loses scrolling.
    for (let between = at; between !== old; ) {
      const following = between.nextSibling;
      if (!needed.has(between.dataset?.key)) {
        if (between === at) at = following;
        between.remove();
      }
      between = following;
    }
    if (old === at) at = at.nextSibling;
    else parent.insertBefore(old, at);
    if (old !== wanted) update(old, wanted);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

/** The element or text that `wanted` is the new state of: by its key, else the next one of its kind from `at` on. */
function counterpart(wanted, keyed, at) {
  const key = wanted.dataset?.key;
  if (key) {
    const old = keyed.get(key);
    keyed.delete(key);
    return old && alike(old, wanted) ? old : null;
  }
  for (let old = at; old; old = old.nextSibling) if (alike(old, wanted)) return old;
  return null;
}

function alike(old, wanted) {
  return old.nodeType === wanted.nodeType && old.nodeName === wanted.nodeName && old.dataset?.key === wanted.dataset?.key;
}

function update(old, wanted) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (!wanted.hasAttribute("data-island")) reconcile(old, [...wanted.childNodes]);
}
