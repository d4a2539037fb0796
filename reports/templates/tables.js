"use strict";
// Sorting by the buttons in table heads (from large to small, the other way, as it was), filtering by words, grouping with sums,
// choosing columns, copying as CSV, and showing rows that a link leads to. Of a long table the first rows are shown until asked.
(() => {
  const FEW = 15; // rows
  const NS_PER = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
  const fixed = (value, decimals) => value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const significant = (value) => fixed(value, Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0);
  const duration = (ns) => {
    if (!ns) return "0 ns";
    const unit = Object.keys(NS_PER).findLast((name) => NS_PER[name] <= Math.max(Math.abs(ns), 1));
    return `${significant(ns / NS_PER[unit])} ${unit}`;
  };
  // how sums are written: as Python wrote the rows (reports/units.py)
  const written = (value, how) => {
    if (how === "duration") return duration(value);
    if (how === "count" || how === "ns") return fixed(value, 0);
    if (how === "signed") return (value > 0 ? "+" : "") + fixed(value, 0);
    if (how === "share") return `${fixed(value * 100, 1)}%`;
    const [unit, decimals] = how.split(":");
    return fixed(value / NS_PER[unit], Number(decimals));
  };

  const compare = (one, other) => {
    const [a, b] = [Number(one), Number(other)];
    return Number.isNaN(a) || Number.isNaN(b) ? one.localeCompare(other, undefined, { numeric: true }) : a - b;
  };
  // what is unknown comes last, whichever way
  const ordered = (a, b, direction) => {
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return direction === "ascending" ? compare(a, b) : compare(b, a);
  };

  class Table {
    constructor(view) {
      this.view = view;
      this.table = view.querySelector("table");
      this.body = this.table.tBodies[0];
      this.heads = [...this.table.tHead.rows[0].cells];
      this.rows = [...this.body.rows];
      this.sorted = null; // {column, direction}
      this.words = [];
      this.only = null; // the rows that something else chose, by id
      this.key = ""; // grouped by
      this.open = new Set(); // names of groups whose rows are shown
      for (const button of this.table.querySelectorAll("thead button")) button.addEventListener("click", () => this.sort(button));
      view.querySelector("[data-filter]")?.addEventListener("input", (event) => this.filter(event.target.value));
      view.querySelector("[data-group]")?.addEventListener("change", (event) => this.group(event.target.value));
      const key = view.querySelector("[data-group]")?.value;
      if (key) this.group(key);
      view.querySelector("[data-all]")?.addEventListener("click", () => this.choose(null));
      this.whole = this.rows.length <= FEW;
      if (!this.whole) this.fold();
      const tools = view.querySelector(".tools");
      if (tools) this.offer(tools);
    }

    // The button below a long table that shows all of its rows, or the first ones again.
    fold() {
      this.more = document.createElement("button");
      this.more.type = "button";
      this.more.className = "more";
      this.more.addEventListener("click", () => { this.whole = !this.whole; this.arrange(); });
      this.view.append(this.more);
      this.arrange();
    }

    // What a table offers besides: which columns are shown, and its rows as CSV.
    offer(tools) {
      if (this.heads.length > 4) {
        const [chooser, summary, style] = ["details", "summary", "style"].map((name) => document.createElement(name));
        chooser.className = "chooser";
        summary.textContent = "Columns";
        chooser.append(summary, style);
        const boxes = this.heads.map((head, column) => this.box(chooser, head.textContent || "bars", column));
        boxes[0].disabled = true; // what a row is about
        chooser.addEventListener("change", () => {
          const hidden = boxes.flatMap((box, column) => (box.checked ? [] : [`[id="${this.view.id}"] tr > :nth-child(${column + 1})`]));
          style.textContent = hidden.length ? `${hidden.join(", ")} { display: none }` : "";
        });
        tools.append(chooser);
      }
      const copy = document.createElement("button");
      copy.type = "button";
      copy.textContent = "Copy as CSV";
      copy.addEventListener("click", async () => {
        await kept(this.csv());
        copy.textContent = "Copied";
        setTimeout(() => { copy.textContent = "Copy as CSV"; }, 1500);
      });
      tools.append(copy);
    }

    box(chooser, title, column) {
      const [label, box] = ["label", "input"].map((name) => document.createElement(name));
      Object.assign(box, { type: "checkbox", checked: true });
      label.append(box, ` ${title}`);
      chooser.append(label);
      return box;
    }

    // All rows that the filter leaves, with exact numbers: integer ns, shares of 1.
    csv() {
      const cell = (text) => {
        const safe = /^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // no spreadsheet takes it for a formula
        return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
      };
      const row = (cells, value) => [...cells].map((one) => cell(value(one))).join(",");
      const lines = this.inOrder(this.rows.filter((one) => this.passes(one)));
      const heads = row(this.heads, (one) => one.textContent.trim());
      return [heads, ...lines.map((one) => row(one.cells, (it) => it.dataset.value ?? it.textContent.trim()))].join("\n");
    }

    sort(button) {
      const head = button.closest("th");
      const first = head.classList.contains("number") ? "descending" : "ascending";
      const second = first === "descending" ? "ascending" : "descending";
      const now = head.getAttribute("aria-sort");
      const direction = now === first ? second : now === second ? null : first;
      for (const other of this.heads) other.removeAttribute("aria-sort");
      if (direction) head.setAttribute("aria-sort", direction);
      this.sorted = direction && { column: head.cellIndex, direction };
      this.arrange();
    }

    filter(text) {
      this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
      this.arrange();
    }

    group(name) {
      this.key = name;
      this.open.clear();
      this.arrange();
    }

    choose(ids) {
      this.only = ids && new Set(ids);
      this.arrange();
    }

    // Shows a row that is filtered away or in a group that is closed.
    reveal(row) {
      if (!this.passes(row)) {
        this.words = [];
        this.only = null;
        const box = this.view.querySelector("[data-filter]");
        if (box) box.value = "";
      }
      if (this.key) this.open.add(this.nameOf(row));
      if (row.hidden) this.arrange();
      if (row.hidden) {
        this.whole = true;
        this.arrange();
      }
    }

    nameOf(row) { return row.getAttribute(`data-key-${this.key}`) ?? "—"; }

    passes(row) {
      if (this.only && !this.only.has(row.id)) return false;
      const text = this.words.length ? row.textContent.toLowerCase() : "";
      return this.words.every((word) => text.includes(word));
    }

    inOrder(rows) {
      if (!this.sorted) return rows;
      const { column, direction } = this.sorted;
      const value = (row) => row.cells[column].dataset.value;
      return [...rows].sort((one, other) => ordered(value(one), value(other), direction)); // stable: else as it was
    }

    // Puts rows into their order, hides those that are filtered away, and with groups puts a row of sums before each group.
    arrange() {
      const shown = this.rows.filter((row) => this.passes(row));
      for (const row of this.rows) row.hidden = true;
      for (const row of shown) row.hidden = false;
      const hidden = this.rows.filter((row) => row.hidden);
      const rows = this.key ? this.grouped(shown) : this.inOrder(shown);
      this.body.replaceChildren(...rows, ...hidden);
      if (this.more) this.cut(rows.filter((row) => !row.hidden));
      const output = this.view.querySelector("output");
      if (output) output.textContent = this.said(shown.length);
      const all = this.view.querySelector("[data-all]");
      if (all) all.hidden = !this.only;
    }

    // Hides all but the first of the rows that are shown, unless all are asked for.
    cut(rows) {
      if (!this.whole) for (const row of rows.slice(FEW)) row.hidden = true;
      this.more.hidden = rows.length <= FEW;
      this.more.textContent = this.whole ? `Show the first ${FEW} only` : `Show all ${rows.length} rows`;
    }

    said(count) {
      const rows = count === this.rows.length ? `${count} rows` : `${count} of ${this.rows.length} rows`;
      return this.key ? `${rows} in ${this.body.querySelectorAll(".group").length} groups` : rows;
    }

    grouped(shown) {
      const groups = Map.groupBy ? Map.groupBy(shown, (row) => this.nameOf(row)) : this.byName(shown);
      const parts = [...groups].map(([name, rows]) => ({ name, rows: this.inOrder(rows), head: this.head(name, rows) }));
      const sorted = this.sorted ?? this.asItWas(shown);
      if (sorted) {
        const { column, direction } = sorted;
        const value = (part) => (column ? part.head.cells[column].dataset.value : part.name);
        parts.sort((one, other) => ordered(value(one), value(other), direction));
      }
      return parts.flatMap(({ name, rows, head }) => {
        for (const row of rows) row.hidden = !this.open.has(name);
        return [head, ...rows];
      });
    }

    // The order of a table whose rows come with the largest first: its groups do, too. Nothing where rows have an order of their own.
    asItWas(rows) {
      const column = this.heads.findIndex((head) => head.dataset.sums);
      const values = rows.slice(0, -1).map((row) => Number(row.cells[column]?.dataset.value)); // the last row may stand for others
      return column > 0 && values.every((value, place) => !place || value <= values[place - 1]) ? { column, direction: "descending" } : null;
    }

    byName(rows) {
      const groups = new Map();
      for (const row of rows) groups.set(this.nameOf(row), [...(groups.get(this.nameOf(row)) ?? []), row]);
      return groups;
    }

    // The row of a group: a button that shows its rows, and the sums of its columns.
    head(name, rows) {
      const line = document.createElement("tr");
      line.className = "group";
      const sums = this.heads.map((head, column) => head.dataset.sums && this.sum(rows, column));
      const known = sums.filter((sum) => sum > 0);
      const least = "ratios" in this.table.dataset && known.length > 1 && name !== "(instrumentation)" ? Math.min(...known) : 0;
      this.heads.forEach((head, column) => {
        const cell = document.createElement(column ? "td" : "th");
        if (!column) {
          cell.scope = "row";
          cell.append(this.button(name, rows));
        } else if (sums[column] !== undefined && sums[column] !== "") {
          cell.className = "number";
          this.total(cell, sums[column], head.dataset.sums, least);
        }
        line.append(cell);
      });
      return line;
    }

    button(name, rows) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.setAttribute("aria-expanded", this.open.has(name));
      const count = document.createElement("small");
      count.textContent = ` ${rows.length} row${rows.length === 1 ? "" : "s"}`;
      button.append(count);
      button.addEventListener("click", () => {
        if (!this.open.delete(name)) this.open.add(name);
        this.arrange();
        [...this.body.querySelectorAll(".group button")].find((other) => other.firstChild.data === name).focus();
      });
      return button;
    }

    // null where no row of the group has a value: unknown, not 0
    sum(rows, column) {
      const values = rows.map((row) => row.cells[column].dataset.value).filter((value) => value !== undefined);
      return values.length ? values.reduce((sum, value) => sum + Number(value), 0) : null;
    }

    total(cell, value, how, least) {
      cell.textContent = value === null ? "—" : written(value, how);
      if (value !== null) cell.dataset.value = value;
      if (!("ratios" in this.table.dataset)) return;
      const ratio = document.createElement("small");
      ratio.textContent = least && value > 0 ? `${significant(value / least)}×` : "";
      cell.append(" ", ratio);
    }
  }

  // Puts text where it can be pasted from; on pages without the clipboard's interface as a selection that is copied.
  const kept = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const box = document.createElement("textarea");
    box.value = text;
    document.body.append(box);
    box.select();
    document.execCommand("copy");
    box.remove();
  };

  const tables = new Map([...document.querySelectorAll(".view:has(table)")].map((view) => [view.id, new Table(view)]));
  for (const link of document.querySelectorAll("[data-only]")) {
    link.addEventListener("click", () => {
      unfold(document.getElementById(link.dataset.of));
      tables.get(link.dataset.of).choose(link.dataset.only.split(" "));
      document.getElementById(link.dataset.of).scrollIntoView();
    });
  }

  // Opens what is folded around a part of the page, or is all of it.
  const unfold = (part) => {
    const own = part.tagName === "SECTION" && [...part.children].find((child) => child.matches("details.fold"));
    if (own) own.open = true;
    for (let around = part; around; around = around.parentElement?.closest("details")) if (around.matches("details")) around.open = true;
  };

  const target = () => {
    document.querySelector("tr.target")?.classList.remove("target");
    const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (row) unfold(row);
    if (row && row.parentElement.tagName !== "TBODY") row.scrollIntoView();
    if (row?.parentElement.tagName !== "TBODY") return;
    tables.get(row.closest(".view").id).reveal(row);
    row.classList.add("target"); // a row that was moved is no longer :target
    row.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", target);
  target();
  document.documentElement.dataset.tables = tables.size;
})();
