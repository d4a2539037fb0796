"use strict";
// Sorting by the buttons in table heads (from large to small, the other way, as it was) and filtering by words.
(() => {
  const compare = (one, other) => {
    const [a, b] = [Number(one), Number(other)];
    return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other, undefined, { numeric: true }) : a - b;
  };

  const sort = (button) => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const first = head.classList.contains("number") ? "descending" : "ascending";
    const second = first === "descending" ? "ascending" : "descending";
    const now = head.getAttribute("aria-sort");
    const next = now === first ? second : now === second ? null : first;
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    if (next) head.setAttribute("aria-sort", next);
    const value = (row) => row.cells[head.cellIndex].dataset.value;
    const rows = [...body.rows];
    rows.sort((one, other) => {
      if (!next) return one.dataset.place - other.dataset.place;
      const [a, b] = [value(one), value(other)];
      // what is unknown comes last, whichever way
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return next === "ascending" ? compare(a, b) : compare(b, a);
    });
    body.append(...rows);
  };

  const filter = (input) => {
    const view = document.getElementById(input.dataset.filter);
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...view.querySelector("tbody").rows];
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const shown = rows.filter((row) => !row.hidden).length;
    view.querySelector("output").textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
  };

  for (const body of document.querySelectorAll("tbody")) [...body.rows].forEach((row, place) => { row.dataset.place = place; });
  for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => sort(button));
  for (const input of document.querySelectorAll("input[data-filter]")) input.addEventListener("input", () => filter(input));
})();
