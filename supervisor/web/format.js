// Numbers with units, times in the reader's zone. Nothing here knows the document.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** 25100 -> "25,100"; null -> "–". */
export function count(value) {
  return isNumber(value) ? NUMBER.format(value) : "–";
}

/** Three significant digits: 2.3104 -> "2.31", 0.00060 -> "0.0006". */
export function short(value) {
  if (!isNumber(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3)) return value.toExponential(2);
  return String(Number(value.toPrecision(Math.abs(value) >= 100 ? 4 : 3)));
}

/** Bytes in binary units: 13153337344 -> "12.3 GiB". */
export function bytes(value) {
  if (!isNumber(value)) return "–";
  let scaled = Math.abs(value);
  let unit = 0;
  while (scaled >= 1024 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || scaled >= 100 ? 0 : 1;
  return `${value < 0 ? "-" : ""}${scaled.toFixed(digits)} ${UNITS[unit]}`;
}

/** The two largest parts: 4980 -> "1 h 23 min"; below ten seconds one decimal. */
export function duration(seconds) {
  if (!isNumber(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${Number(s.toFixed(1))} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(whole, 60, "min", 1, "s");
  if (whole < 86400) return pair(whole, 3600, "h", 60, "min");
  return pair(whole, 86400, "d", 3600, "h");
}

/** Steps per second, or seconds per step where that reads better. */
export function rate(perSecond) {
  if (!isNumber(perSecond) || perSecond <= 0) return "–";
  return perSecond >= 1 ? `${short(perSecond)} steps/s` : `${short(1 / perSecond)} s/step`;
}

/** "14:02", with seconds "14:02:05"; another day than `now`'s gets its date: "28 Nov 14:02". */
export function clock(moment, { seconds = false, now = new Date() } = {}) {
  const at = new Date(moment);
  if (Number.isNaN(at.getTime())) return "–";
  const parts = [at.getHours(), at.getMinutes(), ...(seconds ? [at.getSeconds()] : [])];
  const time = parts.map((part) => String(part).padStart(2, "0")).join(":");
  if (at.toDateString() === now.toDateString()) return time;
  const year = at.getFullYear() === now.getFullYear() ? "" : ` ${at.getFullYear()}`;
  return `${at.getDate()} ${MONTHS[at.getMonth()]}${year} ${time}`;
}

/** "2026-11-29 13:02:05 UTC". */
export function utc(moment) {
  const at = new Date(moment);
  return Number.isNaN(at.getTime()) ? "" : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Seconds from `moment` to `until` (default: now). */
export function since(moment, until = Date.now()) {
  return (new Date(until).getTime() - new Date(moment).getTime()) / 1000;
}

/** A setting's value as a person would write it. */
export function value(setting) {
  if (setting === null || setting === undefined) return "unset";
  return typeof setting === "string" ? setting : JSON.stringify(setting);
}

function isNumber(candidate) {
  return typeof candidate === "number" && Number.isFinite(candidate);
}

function pair(whole, large, largeUnit, small, smallUnit) {
  const first = Math.floor(whole / large);
  const second = Math.floor((whole % large) / small);
  return second ? `${first} ${largeUnit} ${second} ${smallUnit}` : `${first} ${largeUnit}`;
}
