"use strict";
// Tables: buttons in the heads sort them (descending, ascending, original order). They can be filtered by words, grouped with sums
// and copied as CSV; columns can be chosen; links lead to rows. A long table shows its first rows until the reader asks for all.
// In a very long one, only the visible rows are laid out (windowed.js).
(() => {
  const FIRST = 15; // rows that any table shows before the reader asks for all
  const NS_PER = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9 };
  const fixed = (value, decimals) => value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const significant = (value) => fixed(value, Math.abs(value) < 9.995 ? 2 : Math.abs(value) < 99.95 ? 1 : 0);
  const duration = (ns) => {
    if (!ns) return "0 ns";
    const unit = Object.keys(NS_PER).findLast((name) => NS_PER[name] <= Math.max(Math.abs(ns), 1));
    return `${significant(ns / NS_PER[unit])} ${unit}`;
  };
  // sums are formatted as Python formats the rows (reports/units.py)
  const written = (value, how) => {
    if (how === "duration") return duration(value);
    if (how === "count") return fixed(value, Number.isInteger(value) || value >= 100 ? 0 : 1);
    if (how.startsWith("signed:")) return (value > 0 ? "+" : "") + written(value, how.slice("signed:".length));
    if (how === "share") return `${fixed(value * 100, 1)}%`;
    const [unit, decimals] = how.split(":");
    return fixed(value / NS_PER[unit], Number(decimals));
  };

  // A column for TanStack Table: its values are exact (integer ns, shares of 1), and unknown ones are undefined.
  const column = (head, place, nameOf) => {
    const numeric = head.classList.contains("number");
    const value = ({ cells }) => cells[place].dataset.value;
    return {
      id: String(place),
      accessorFn: numeric ? (row) => (value(row) === undefined ? undefined : Number(value(row))) : value,
      sortingFn: numeric ? "basic" : "alphanumeric",
      sortUndefined: "last",
      sortDescFirst: numeric,
      enableHiding: place > 0, // the first one names the row
      aggregationFn: place === 0 ? (_, rows) => nameOf(rows[0].original) : head.dataset.sums ? sum : () => undefined,
    };
  };

  // undefined if no row of a group has a value: unknown, not 0
  const sum = (id, rows) => {
    const values = rows.map((row) => row.getValue(id)).filter((value) => value !== undefined);
    return values.length ? values.reduce((total, value) => total + value, 0) : undefined;
  };

  // One table of the page. TanStack Table keeps its state, and orders, filters, groups, sums and cuts the rows that came with the
  // page. Rows that are not shown stay in the page, hidden, so that links find them.
  class Table {
    constructor(view) {
      this.view = view;
      this.element = view.querySelector("table");
      this.body = this.element.tBodies[0];
      this.heads = [...this.element.tHead.rows[0].cells];
      this.rows = [...this.body.rows];
      this.words = [];
      this.only = null; // the rows that another part of the page chose, by id
      this.windowed = new Windowed(view.querySelector(".scroll"));
      this.table = this.made();
      for (const button of this.element.querySelectorAll("thead button")) {
        button.addEventListener("click", () => this.columnOf(button).toggleSorting());
      }
      view.querySelector("[data-filter]")?.addEventListener("input", (event) => this.filter(event.target.value));
      view.querySelector("[data-all]")?.addEventListener("click", () => this.choose(null));
      const choice = view.querySelector("[data-group]");
      choice?.addEventListener("change", () => this.group(choice.value));
      if (this.rows.length > FIRST) this.fold();
      this.ready = this.complete(view.querySelector("[data-further]"));
      const tools = view.querySelector(".tools");
      if (tools) this.offer(tools);
      this.group(choice?.value);
    }

    // Adds the packed rows of the page, if there are any.
    async complete(further) {
      if (!further) return;
      const holder = document.createElement("template");
      holder.innerHTML = `<table><tbody>${await unpacked(further.textContent)}</tbody></table>`;
      this.rows = [...this.rows.filter((row) => !row.matches(".further")), ...holder.content.querySelector("tbody").rows];
      this.table.setOptions((options) => ({ ...options, data: this.rows }));
      this.draw();
    }

    get most() { return 2 * this.rows.length; } // each in its own group

    made() {
      const names = [...this.view.querySelectorAll("[data-group] option")].map((option) => option.value).filter(Boolean);
      const keys = names.map((name) => ({ id: `key-${name}`, accessorFn: (row) => this.nameOf(row, name) }));
      const core = TableCore;
      const table = core.createTable({
        data: this.rows,
        columns: [...this.heads.map((head, place) => column(head, place, (row) => this.nameOf(row, this.key))), ...keys],
        state: {},
        renderFallbackValue: null,
        autoResetAll: false,
        groupedColumnMode: false,
        getColumnCanGlobalFilter: () => true,
        globalFilterFn: (row) => this.passes(row.original),
        onStateChange: (update) => {
          const state = typeof update === "function" ? update(table.getState()) : update;
          table.setOptions((options) => ({ ...options, state }));
          this.draw();
        },
        getCoreRowModel: core.getCoreRowModel(),
        getFilteredRowModel: core.getFilteredRowModel(),
        getGroupedRowModel: core.getGroupedRowModel(),
        getSortedRowModel: core.getSortedRowModel(),
        getExpandedRowModel: core.getExpandedRowModel(),
        getPaginationRowModel: core.getPaginationRowModel(),
      });
      const pagination = { pageIndex: 0, pageSize: FIRST };
      const asked = this.view.querySelector(".tools") ? this.heads.filter((head) => "asked" in head.dataset) : [];
      const columnVisibility = Object.fromEntries(asked.map((head) => [String(head.cellIndex), false]));
      table.setOptions((options) => ({ ...options, state: { ...table.initialState, pagination, columnVisibility } }));
      return table;
    }

    columnOf(inside) { return this.table.getColumn(String(inside.closest("th").cellIndex)); }

    nameOf(row, key) { return row.getAttribute(`data-key-${key}`) ?? "—"; }

    passes(row) {
      if (this.only && !this.only.has(row.id)) return false;
      const text = this.words.length ? row.textContent.toLowerCase() : "";
      return this.words.every((word) => text.includes(word));
    }

    filter(text) {
      this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
      this.narrow();
    }

    choose(ids) {
      this.only = ids && new Set(ids);
      this.narrow();
    }

    narrow() { this.table.setGlobalFilter(this.words.length || this.only ? { words: this.words, only: this.only } : undefined); }

    // Groups the rows with all groups closed; the largest group comes first if the rows were in that order.
    group(name) {
      this.key = name || null;
      this.table.setState((state) => ({
        ...state, expanded: {}, grouping: this.key ? [`key-${this.key}`] : [],
        sorting: state.sorting.length || !this.key ? state.sorting : this.asItCame(),
      }));
    }

    // The sorting of groups: largest first if the rows are; empty if the rows have another order.
    asItCame() {
      const place = this.heads.findIndex((head) => head.dataset.sums);
      const values = this.rows.slice(0, -1).map((row) => Number(row.cells[place]?.dataset.value)); // the last row may sum up others
      const falls = place > 0 && values.every((value, row) => !row || value <= values[row - 1]);
      return falls ? [{ id: String(place), desc: true }] : [];
    }

    // Shows a row, even if it is filtered out, in a closed group, or below the first ones.
    reveal(row) {
      if (!this.passes(row)) {
        this.only = null;
        this.words = [];
        const box = this.view.querySelector("[data-filter]");
        if (box) box.value = "";
        this.narrow();
      }
      if (this.key) this.table.setExpanded((open) => ({ ...open, [`key-${this.key}:${this.nameOf(row, this.key)}`]: true }));
      if (row.hidden) this.table.setPageSize(this.most);
      this.windowed.reach(row);
    }

    draw() {
      const { rows } = this.table.getRowModel();
      const shown = rows.map((row) => (row.getIsGrouped() ? this.groupLine(row) : row.original));
      const visible = new Set(shown);
      for (const row of this.rows) row.hidden = !visible.has(row);
      this.body.replaceChildren(...shown, ...this.rows.filter((row) => row.hidden));
      this.windowed.take(shown);
      this.heads.forEach((head, place) => {
        const sorted = this.table.getState().sorting.find(({ id }) => id === String(place));
        if (sorted) head.setAttribute("aria-sort", sorted.desc ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      if (this.element.tFoot) this.element.tFoot.hidden = Boolean(this.words.length || this.only); // it sums all rows
      if (this.more) this.sayMore();
      const output = this.view.querySelector("output");
      if (output) output.textContent = this.said();
      const all = this.view.querySelector("[data-all]");
      if (all) all.hidden = !this.only;
    }

    said() {
      const count = this.table.getFilteredRowModel().rows.length;
      const rows = count === this.rows.length ? `${count} rows` : `${count} of ${this.rows.length} rows`;
      return this.key ? `${rows} in ${this.table.getGroupedRowModel().rows.length} groups` : rows;
    }

    // Adds the button below a long table that shows all rows, or only the first ones again.
    fold() {
      this.more = document.createElement("button");
      this.more.type = "button";
      this.more.className = "more";
      this.more.addEventListener("click", () => this.table.setPageSize(this.all() ? FIRST : this.most));
      this.view.append(this.more);
    }

    all() { return this.table.getState().pagination.pageSize > FIRST; }

    sayMore() {
      const count = this.table.getPrePaginationRowModel().rows.length;
      this.more.hidden = count <= FIRST;
      this.more.textContent = this.all() ? `Show only the first ${FIRST}` : `Show all ${count} rows`;
    }

    // Adds a table's other tools: the choice of columns, and copying as CSV.
    offer(tools) {
      if (this.heads.length > 4) {
        const [chooser, summary, style] = ["details", "summary", "style"].map((name) => document.createElement(name));
        chooser.className = "chooser";
        chooser.append(summary, style, ...this.heads.map((head, place) => this.box(head, this.table.getColumn(String(place)))));
        const hide = () => {
          const hidden = this.heads.filter((head) => !this.table.getColumn(String(head.cellIndex)).getIsVisible());
          const cells = hidden.map((head) => `[id="${this.view.id}"] tr > :nth-child(${head.cellIndex + 1})`);
          style.textContent = cells.length ? `${cells.join(", ")} { display: none }` : "";
          summary.textContent = hidden.length ? `Columns (${hidden.length} more)` : "Columns";
          this.windowed.fit();
        };
        hide();
        chooser.addEventListener("change", hide);
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

    box(head, shown) {
      const [label, box] = ["label", "input"].map((name) => document.createElement(name));
      Object.assign(box, { type: "checkbox", checked: shown.getIsVisible(), disabled: !shown.getCanHide() });
      box.addEventListener("change", () => shown.toggleVisibility(box.checked));
      label.append(box, ` ${head.textContent || "bars"}`);
      return label;
    }

    // All rows that pass the filter, in order, with exact numbers: integer ns, shares of 1.
    csv() {
      const cell = (text) => {
        const safe = /^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text; // so that no spreadsheet takes it for a formula
        return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
      };
      const line = (cells, value) => [...cells].map((one) => cell(value(one))).join(",");
      const rows = this.table.getSortedRowModel().rows.flatMap((row) => (row.getIsGrouped() ? row.subRows : [row]));
      const heads = line(this.heads, (one) => one.textContent.trim());
      const below = this.element.tFoot?.hidden ? [] : [...this.element.querySelectorAll("tr.below")];
      const cells = [...rows.map(({ original }) => original.cells), ...below.map((row) => row.cells)];
      return [heads, ...cells.map((row) => line(row, (one) => one.dataset.value ?? one.textContent.trim()))].join("\n");
    }

    // Returns a group's line: a button that shows its rows, and the sums of its columns.
    groupLine(group) {
      const line = document.createElement("tr");
      line.className = "group";
      const sums = this.heads.map((_, place) => (place ? group.getValue(String(place)) : undefined));
      const known = sums.filter((value) => value > 0);
      const ratios = "ratios" in this.element.dataset && known.length > 1 && group.groupingValue !== "(profiling overhead)";
      this.heads.forEach((head, place) => {
        const cell = document.createElement(place ? "td" : "th");
        if (!place) {
          cell.scope = "row";
          cell.append(this.button(group));
        } else if (head.dataset.sums) {
          cell.className = "number";
          this.total(cell, sums[place], head.dataset.sums, ratios ? Math.min(...known) : 0);
        }
        line.append(cell);
      });
      return line;
    }

    button(group) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = group.groupingValue;
      button.setAttribute("aria-expanded", group.getIsExpanded());
      const count = document.createElement("small");
      count.textContent = ` ${group.subRows.length} row${group.subRows.length === 1 ? "" : "s"}`;
      button.append(count);
      button.addEventListener("click", () => {
        group.toggleExpanded();
        [...this.body.querySelectorAll(".group button")].find((other) => other.firstChild.data === group.groupingValue).focus();
      });
      return button;
    }

    total(cell, value, how, least) {
      cell.textContent = value === undefined ? "—" : written(value, how);
      if (value !== undefined) cell.dataset.value = value;
      if (!("ratios" in this.element.dataset)) return;
      const ratio = document.createElement("small");
      ratio.textContent = least && value > 0 ? `${significant(value / least)}×` : "";
      cell.append(" ", ratio);
    }
  }

  // Copies text to the clipboard; without the clipboard API, by copying a selection.
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

  // Opens the folded elements around a part of the page, and the part itself.
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
    row.classList.add("target"); // a moved row is no longer :target
    (row.hidden ? row.closest(".scroll") : row).scrollIntoView({ block: "center" }); // its scrolling box brings it into view
  };
  addEventListener("hashchange", target);
  Promise.all([...tables.values()].map((table) => table.ready)).then(() => {
    target();
    document.documentElement.dataset.tables = tables.size;
  });
})();
