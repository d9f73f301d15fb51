"use strict";
// Draws the figures, and lets the heads of tables sort their rows. Tables can be read without it.

for (const figure of document.querySelectorAll(".figure")) {
  drawFigure(figure.querySelector("div"), JSON.parse(figure.querySelector("script").textContent));
}

// The first number of a cell, without the interval below it; NaN for a dash.
function number(cell) {
  const text = (cell.firstChild?.textContent ?? "").replace(/\s/g, "").replace("\u2212", "-");
  return parseFloat(text.replace(/^[^\d.+-]+/, ""));
}

function compare(a, b) {
  if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
  return a - b || 0;
}

function sort(head) {
  const body = head.closest("table").tBodies[0], rising = head.ariaSort !== "ascending";
  const value = (row) => {
    const cell = row.cells[head.cellIndex];
    return head.classList.contains("left") ? cell.textContent : number(cell);
  };
  const rows = Array.from(body.rows, (row) => ({ row, value: value(row) }));
  const unknown = ({ value }) => Number.isNaN(value);
  // What is not known stays at the end.
  rows.sort((a, b) => unknown(a) - unknown(b) || (rising ? compare(a.value, b.value) : compare(b.value, a.value)));
  body.append(...rows.map(({ row }) => row));
  for (const one of head.parentNode.cells) one.ariaSort = null;
  head.ariaSort = rising ? "ascending" : "descending";
}

for (const head of document.querySelectorAll("thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  button.addEventListener("click", () => sort(head));
  head.append(button);
}
