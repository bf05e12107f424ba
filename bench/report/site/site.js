"use strict";

const KEY = "silobench-theme";
const root = document.documentElement;

// A page opened from a file may be forbidden to remember anything; then it follows the system each time.
function remembered() {
  try { return localStorage.getItem(KEY); } catch { return null; }
}

function remember(theme) {
  try { localStorage.setItem(KEY, theme); } catch { /* it holds until the page is left */ }
}

// Before the page is drawn, so that a dark page never flashes white.
if (remembered()) root.dataset.theme = remembered();

function offerThemes(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => { button.textContent = dark() ? "Light mode" : "Dark mode"; };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    remember(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
}

// First the smallest, then the largest, then the order of the paper again. Cells without content come last.
const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
const words = new Intl.Collator("en", { numeric: true });

function value(row, column) {
  const cell = row.cells[column];
  return cell.dataset.sort ?? cell.textContent.trim();
}

// What a cell begins with, as a number: 11340 of "11,340", 0.71 of "0.71 ± 0.02"; NaN of words.
function number(text) {
  const found = /^[+−-]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?(e[+-]?\d+)?(?![\w.])/.exec(text);
  return found ? Number(found[0].replaceAll(",", "").replace("−", "-")) : NaN;
}

// Numbers by size, before words.
function compare(a, b) {
  const [one, other] = [number(a), number(b)];
  if (Number.isNaN(one) !== Number.isNaN(other)) return Number.isNaN(one) ? 1 : -1;
  return one - other || words.compare(a, b);
}

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells].filter((cell) => cell.tagName === "TH");
  const body = table.tBodies[0];
  const printed = [...body.rows];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const order = NEXT[head.getAttribute("aria-sort")];
      for (const other of heads) other.setAttribute("aria-sort", other === head ? order : "none");
      body.append(...(order === "none" ? printed : ordered(printed, head.cellIndex, order)));
    });
  }
}

function ordered(rows, column, order) {
  const sign = order === "descending" ? -1 : 1;
  return rows.toSorted((one, other) => {
    const [a, b] = [value(one, column), value(other, column)];
    if (a === "" || b === "") return (a === "") - (b === "");
    return sign * compare(a, b);
  });
}

document.addEventListener("DOMContentLoaded", () => {
  offerThemes(document.getElementById("theme"));
  document.querySelectorAll("table.sortable").forEach(makeSortable);
});
