// Terminal bytes to classed text. ansi_up reads the escape sequences; of its answer we take the fragments, not the
// markup, so that nothing a program prints can become an element, an attribute or a link.

import { h } from "./dom.js";
import { AnsiUp } from "./vendor/ansi_up.js";

const CUBE = [0, 95, 135, 175, 215, 255];
const ARGUMENTS = { 5: 1, 2: 3 };

installPalette();

/** Spans and strings for `text`, which may hold colours; other escape sequences and control bytes are dropped. */
export function terminalNodes(text) {
  return new Fragments().read(text).map(({ text: words, classes }) => (classes ? h("span", { class: classes }, words) : words));
}

/** What a terminal would show of a log's `text`: of a line that was rewritten in place only its last writing. */
export function settle(text) {
  return text
    .split("\n")
    .map((line) => {
      const writings = line.replace(/\r+$/, "").split("\r");
      return writings.findLast((writing) => writing !== "") ?? "";
    })
    .join("\n");
}

class Fragments extends AnsiUp {
  #found = [];
  #inverse = false;

  read(text) {
    this.ansi_to_html(plainColons(text));
    // What ansi_up keeps back as an unfinished sequence is text to us: there is no next piece.
    if (this._buffer) this.#add(this._buffer, "");
    return this.#found;
  }

  transform_to_html(fragment) {
    this.#add(fragment.text, this.#classes(fragment));
    return "";
  }

  process_hyperlink(packet) {
    this.#add(packet.text, this.#classes(this.with_state(packet)));
    return "";
  }

  process_ansi(packet) {
    const known = [];
    const codes = packet.text.split(";");
    for (let i = 0; i < codes.length; i += 1) {
      const code = Number(codes[i] || 0);
      const extended = code === 38 || code === 48 || code === 58;
      const taken = extended ? codes.slice(i, i + 2 + (ARGUMENTS[codes[i + 1]] ?? 0)) : [codes[i]];
      i += taken.length - 1;
      if (code === 7) this.#inverse = true;
      if (code === 27 || code === 0) this.#inverse = false;
      if (code !== 58) known.push(...taken);
    }
    super.process_ansi({ ...packet, text: known.join(";") });
  }

  #classes({ bold, faint, italic, underline, fg, bg }) {
    const [ink, paper] = this.#inverse ? [bg, fg] : [fg, bg];
    return [
      bold && "bold",
      faint && "faint",
      italic && "italic",
      underline && "underline",
      ink ? `${colour(ink)}-fg` : this.#inverse && "inverse-fg",
      paper ? `${colour(paper)}-bg` : this.#inverse && "inverse-bg",
    ]
      .filter(Boolean)
      .join(" ");
  }

  #add(text, classes) {
    const printable = text.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
    if (printable) this.#found.push({ text: printable, classes });
  }
}

/** Colon forms (curly underlines, `38:2::r:g:b`) in the semicolon forms that ansi_up knows. */
function plainColons(text) {
  return text.replace(/\x1b\[([\d;:]*)m/g, (_, codes) => {
    const plain = codes.replace(/(^|;)4:(\d+)/g, (__, before, style) => `${before}${style === "0" ? 24 : 4}`);
    return `\x1b[${plain.replace(/:+/g, ";")}m`;
  });
}

function colour({ class_name: name, rgb }) {
  return name === "truecolor" ? `ansi-x${nearest(rgb)}` : name;
}

/** The entry of the 256-colour cube, or of its greys, that is nearest to an RGB colour. */
function nearest([red, green, blue]) {
  const step = (part) => CUBE.reduce((best, level, i) => (Math.abs(level - part) < Math.abs(CUBE[best] - part) ? i : best), 0);
  if (Math.max(red, green, blue) - Math.min(red, green, blue) < 8 && red >= 8 && red < 243) {
    return 232 + Math.min(23, Math.round((red - 8) / 10));
  }
  return 16 + 36 * step(red) + 6 * step(green) + step(blue);
}

/** Classes for the upper 240 colours; a constructed sheet is no inline style, a strict policy allows it. */
function installPalette() {
  const sheet = new CSSStyleSheet();
  const rules = [];
  for (let i = 16; i < 256; i += 1) {
    const rgb = i < 232 ? [Math.floor((i - 16) / 36), Math.floor((i - 16) / 6) % 6, (i - 16) % 6].map((level) => CUBE[level]) : Array(3).fill(8 + 10 * (i - 232));
    rules.push(`.ansi-x${i}-fg{color:rgb(${rgb})}.ansi-x${i}-bg{background-color:rgb(${rgb})}`);
  }
  sheet.replaceSync(rules.join(""));
  document.adoptedStyleSheets.push(sheet);
}
