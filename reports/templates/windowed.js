"use strict";
// Lays out only the visible rows of a long table, in a scrolling box, so thousands of rows cost as little as a hundred. TanStack
// Virtual computes which rows these are. The others stay in the page, hidden, so that links find them.
class Windowed {
  static FROM = 100; // shorter tables are shown whole

  constructor(box) {
    this.box = box;
    this.element = box.querySelector("table");
    this.body = this.element.tBodies[0];
    this.spaces = ["before", "after"].map(() => this.space());
    this.rows = [];
    this.laid = new Set();
  }

  // A row as high as all rows above, or below, that are not laid out.
  space() {
    const row = document.createElement("tr"), cell = document.createElement("td");
    row.className = "space";
    row.setAttribute("aria-hidden", "true");
    cell.colSpan = this.element.tHead.rows[0].cells.length;
    row.append(cell);
    return row;
  }

  // Takes over rows that were just put into the table, in order, if there are many.
  take(rows) {
    this.leave();
    if (rows.length <= Windowed.FROM) return;
    this.box.scrollTop = 0;
    this.box.classList.add("windowed");
    this.rows = rows;
    rows.forEach((row, place) => { row.hidden = place >= Windowed.FROM; });
    this.fit();
    for (const row of rows) row.hidden = true;
    this.body.prepend(...this.spaces);
    this.virtual = new TableVirtual.Virtualizer({
      count: rows.length,
      overscan: 10,
      getScrollElement: () => this.box,
      estimateSize: () => this.height,
      initialRect: { width: this.box.clientWidth, height: this.box.clientHeight },
      observeElementRect: TableVirtual.observeElementRect,
      observeElementOffset: TableVirtual.observeElementOffset,
      scrollToFn: TableVirtual.elementScroll,
      onChange: () => this.lay(),
    });
    this.unmount = this.virtual._didMount();
    this.virtual._willUpdate();
    this.lay();
  }

  leave() {
    this.unmount?.();
    this.unmount = this.virtual = null;
    this.rows = [];
    this.laid = new Set();
    for (const space of this.spaces) space.remove();
    this.box.classList.remove("windowed");
    this.loosen();
  }

  // Fixes the current width of each column, so that columns do not move while rows come and go.
  fit() {
    if (!this.rows.length) return;
    this.loosen();
    const heads = this.heads(), widths = heads.map((head) => head.offsetWidth);
    heads.forEach((head, place) => { head.style.width = `${widths[place]}px`; });
    Object.assign(this.element.style, { tableLayout: "fixed", width: `${widths.reduce((sum, width) => sum + width, 0)}px` });
    const laid = this.rows.filter((row) => !row.hidden);
    this.height ||= laid.reduce((sum, row) => sum + row.offsetHeight, 0) / laid.length;
  }

  loosen() {
    for (const head of this.heads()) head.style.width = "";
    Object.assign(this.element.style, { tableLayout: "", width: "" });
  }

  heads() { return [...this.element.tHead.rows[0].cells]; }

  lay() {
    if (!this.virtual || this.measuring) return;
    const items = this.virtual.getVirtualItems();
    if (!items.length) return;
    const [before, after] = this.spaces, rows = items.map(({ index }) => this.rows[index]), now = new Set(rows);
    for (const row of this.laid) if (!now.has(row)) row.hidden = true;
    let last = before;
    for (const row of rows) {
      row.hidden = false;
      if (last.nextSibling !== row) last.after(row);
      last = row;
    }
    last.after(after);
    this.laid = now;
    const heights = rows.map((row) => row.offsetHeight); // names of two lines are higher
    this.measuring = true;
    items.forEach(({ index }, place) => this.virtual.resizeItem(index, heights[place]));
    this.measuring = false;
    const beneath = this.virtual.getTotalSize() - items[0].start - heights.reduce((sum, height) => sum + height, 0);
    before.firstChild.style.height = `${items[0].start}px`;
    after.firstChild.style.height = `${Math.max(0, beneath)}px`;
  }

  // Scrolls one of the rows into view.
  reach(row) {
    const place = this.rows.indexOf(row);
    if (place >= 0) this.virtual.scrollToIndex(place, { align: "center" });
  }
}
