"use strict";
// The timeline of a recording, or of several: rows of events, with sides aligned at the steps that are shown first. ECharts provides
// axes, zoom and canvas; timeline_events.js chooses what to draw, and timeline_rows.js draws it.
(() => {
  const { FEW, KEYS, duration, moment, levelFor, firstAfter, textOf, described, exactly, keysOf } = kernelscope.events;
  const { prepared, laidOut, search, foundIn, traceOf } = kernelscope.events;
  const { TINTS, tintOf, coloured, registerBars, drawnRow, drawnText, legendOf } = kernelscope.rows;
  const { made } = kernelscope;
  const NARROWEST = 20; // ns: the narrowest zoom
  const views = new WeakMap(); // element -> what survives drawing it again: {from, to, words, all, sides, legend, stop}

  const HINT = "Drag, A and D or arrow keys: move. Ctrl and wheel, W and S or + and −: zoom. Home: all. /: search; Enter there shows "
    + "the next event. Click, or Enter on the event shown: details. Shift and two clicks: the time between them.";

  const save = (text, name) => {
    const href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    made("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  };

  // --- the part --------------------------------------------------------------------------------------------------------------

  const TOP = 26, BOTTOM = 62, BESIDE = 6; // pixels around what is drawn
  const TIP = "position:absolute;pointer-events:none;z-index:4;max-width:min(420px,90%);padding:6px 9px;font-size:13px;"
    + "border:1px solid var(--soft);border-radius:4px;background:var(--page);color:var(--ink);overflow-wrap:anywhere;"
    + "white-space:pre-line";

  class Timeline {
    constructor(element, data, theme, view) {
      Object.assign(this, { element, theme, view, sides: view.sides, begins: Math.min(...view.sides.map((side) => side.begins)), ends: Math.max(...view.sides.map((side) => side.begins + side.wall)) });
      if (view.to === null) [view.from, view.to] = this.firstShown() ?? [this.begins, this.ends];
      this.fills = [...coloured(data.legend, theme), ...TINTS];
      for (const side of this.sides) {
        side.copies = data.legend.findIndex(({ title, of }) => of === "owners" && title === "copies");
        side.tinted ??= side.colours.map((slot, label) => (
          data.legend[slot].colour === "other" ? data.legend.length + tintOf(textOf(side, "name", label) ?? "") : slot
        ));
      }
      this.hits = search(this.sides, view.words);
      this.forget();
      this.layOut();
      this.chart = kernelscope.echart(element, theme);
      this.chart.setOption(this.option());
      this.chart.on("datazoom", () => {
        const { startValue, endValue } = this.chart.getOption().dataZoom[0];
        Object.assign(view, { from: startValue, to: endValue });
        this.mark(null);
      });
      this.listenToTheMouse();
      this.offerTools();
      this.explainColours(data);
      this.listenToKeys();
    }

    // From the beginning of the steps shown first to the end of the longest of them; null if there is nothing else.
    firstShown() {
      const edges = this.sides.map(({ begins, wall, shown }) => (shown ?? [0, wall]).map((ns) => begins + ns));
      if (!this.sides.some(({ shown }) => shown)) return null;
      return [Math.min(...edges.map(([first]) => first)), Math.max(...edges.map(([, last]) => last))];
    }

    get seen() { return this.view.to - this.view.from; }

    // How many pixels a ns is wide.
    get scale() { return (this.element.clientWidth - 2 * BESIDE) / this.seen; }

    layOut() {
      Object.assign(this, laidOut(this.sides, this.view.all));
      this.element.style.height = `${this.height + TOP + BOTTOM}px`;
    }

    again() {
      this.chart.resize();
      this.chart.setOption(this.option(), true);
      this.mark(null);
    }

    draw(params, api) {
      const entry = this.entries[params.dataIndex], { colours } = this.theme;
      const [left, y] = api.coord([0, entry.y]);
      const at = { left, scale: api.size([1e6, 0])[0] / 1e6, x: params.coordSys.x, width: params.coordSys.width };
      const how = { searching: this.hits.searching, font: colours.font };
      const children = entry.kind === "row" ? drawnRow(entry, y, at, this.fills, how) : drawnText(entry, y, at, colours);
      return { type: "group", $mergeChildren: false, children }; // else the old content of an empty row would stay
    }

    // A time on the axis, called while the axis is drawn: it is zoomed before the view knows. Labels at the ends are inside them; others
    // close to the ends would be cut off.
    labelled(ns) {
      const [from, to] = this.chart.getModel().getComponent("xAxis").axis.scale.getExtent();
      const edge = Math.min(ns - from, to - ns) / (to - from) * this.element.clientWidth;
      return edge > 0 && edge < 30 ? "" : moment(ns, to - from, Math.max(-from, to));
    }

    option() {
      const axis = {
        type: "value", min: this.begins, max: this.ends, splitNumber: 4, splitLine: { show: true },
        axisLabel: { formatter: (ns) => this.labelled(ns), hideOverlap: true, alignMinLabel: "left", alignMaxLabel: "right" },
      };
      return {
        grid: { left: BESIDE, right: BESIDE, top: TOP, bottom: BOTTOM, outerBoundsMode: "none" },
        xAxis: [{ ...axis, position: "top" }, { ...axis, position: "bottom", splitLine: { show: false } }],
        yAxis: { type: "value", min: 0, max: this.height, inverse: true, show: false },
        dataZoom: this.zooms(),
        series: [{
          type: "custom", renderItem: (params, api) => this.draw(params, api), clip: true, silent: true, encode: { x: 0, y: 1 },
          data: this.entries.map((entry) => [0, entry.y]),
        }],
      };
    }

    zooms() {
      const { view: { from, to }, theme: { colours } } = this;
      const range = { startValue: from, endValue: to, minValueSpan: NARROWEST };
      const both = { ...range, xAxisIndex: [0, 1], filterMode: "none", throttle: 0 };
      return [
        { ...both, type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: "shift", preventDefaultMouseMove: false },
        {
          ...both, type: "slider", height: 20, bottom: 8, left: 14, right: 14, showDetail: false, brushSelect: false,
          showDataShadow: false, borderColor: colours.line, fillerColor: `${colours.bar}33`,
          handleStyle: { color: colours.page, borderColor: colours.soft }, moveHandleStyle: { color: colours.soft },
        },
      ];
    }

    // Shows a time range, limited to the whole, and wide enough.
    show(start, end) {
      const width = Math.min(Math.max(end - start, NARROWEST), this.ends - this.begins);
      const begin = Math.min(Math.max(start, this.begins), this.ends - width);
      this.chart.dispatchAction({ type: "dataZoom", startValue: begin, endValue: begin + width });
      const [first, last] = [begin, begin + width].map((ns) => moment(ns, width, Math.max(-begin, begin + width)));
      kernelscope.say(this.element, `${first} to ${last} is shown`);
    }

    zoomBy(factor) {
      const middle = (this.view.from + this.view.to) / 2, half = this.seen * factor / 2;
      this.show(middle - half, middle + half);
    }

    moveBy(part) {
      this.show(this.view.from + part * this.seen, this.view.to + part * this.seen);
    }

    // --- pointing ------------------------------------------------------------------------------------------------------------

    // The event at a place of the canvas: its entry with {level, place}, or null.
    under(x, y) {
      const entry = this.entries.find((one) => one.y <= y - TOP && y - TOP < one.y + one.height);
      if (entry?.kind !== "row") return null;
      const near = 2 / this.scale, time = this.view.from + (x - BESIDE) / this.scale;
      const level = levelFor(entry.row, 1 / this.scale);
      for (let i = firstAfter(level, time - near); i < level.start.length && level.start[i] <= time + near; i += 1) {
        const last = i + 1 === level.start.length || level.start[i + 1] > time + near;
        if (level.end[i] >= time || last) return { ...entry, level, place: i };
      }
      return null;
    }

    // Frames an event; without one, removes frame and tip.
    mark(event) {
      this.drawArrow();
      this.frame.attr({ invisible: !event });
      this.tip.hidden = true;
      if (!event) return;
      const at = (ns) => BESIDE + (ns - this.view.from) * this.scale;
      const x = Math.max(at(event.level.start[event.place]), BESIDE);
      const end = Math.min(at(event.level.end[event.place]), this.element.clientWidth - BESIDE);
      this.frame.attr({ shape: { x, y: TOP + event.y, width: Math.max(end - x, 2), height: event.height } });
    }

    point(event, x, y) {
      this.mark(event);
      if (!event) return;
      this.tip.hidden = false;
      this.tip.textContent = described(event).join("\n");
      this.tip.style.left = `${Math.max(0, Math.min(x + 14, this.element.clientWidth - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${y + 18}px`;
    }

    // Zooms into merged events; shows the details of a single one.
    click(event) {
      if (!event) return;
      const { level, place } = event, margin = (level.end[place] - level.start[place]) / 4;
      if (level.events[place] === 1 || level === event.row.levels[0]) this.tellAll(event);
      else this.show(level.start[place] - margin, level.end[place] + margin);
    }

    // Shows the details of an event below the timeline, with a link to its table row, and an arrow from its launch.
    tellAll(shown) {
      const event = exactly(shown), { side, lane, level, place } = event, label = level.label[place], length = level.end[place] - level.start[place];
      const launched = level.launched?.[place] ?? -1;
      const facts = [
        ...KEYS.map((key) => [key, textOf(side, key, label)]), ["lane", lane.name], ["lasts", `${duration(length)} (${length.toLocaleString("en")} ns)`],
        ["starts", `${moment(level.start[place] - side.begins, length || 1, side.wall)} after the beginning`],
        ["launched", launched < 0 ? null : `${duration(launched)} before, by thread ${level.launcher[place]}`],
        ["of the whole", `${(100 * level.busy[place] / side.wall).toFixed(3)}%`],
      ].filter(([, value]) => value);
      const button = made("button", { type: "button", textContent: "Show in table" });
      button.addEventListener("click", () => this.goToRow(event));
      const list = made("dl", {}, ...facts.flatMap(([name, value]) => [made("dt", { textContent: name }), made("dd", { textContent: value })]));
      this.view.details?.remove();
      const close = made("button", { type: "button", textContent: "Close" });
      close.addEventListener("click", () => { this.view.details.remove(); this.view.told = null; this.drawArrow(); });
      this.view.details = made("div", { className: "details" }, button, close, list);
      document.getElementById(`${this.element.id}-said`).after(this.view.details);
      this.view.told = event;
      this.tip.hidden = true; // it would cover the details that it repeats
      this.drawArrow();
      kernelscope.say(this.element, described(event).join("; "));
    }

    // An arrow from the host's launch to the event whose details are shown, if both are visible.
    drawArrow() {
      this.arrow.attr({ invisible: true });
      const event = this.view.told, launched = event?.level.launched?.[event.place] ?? -1;
      if (launched < 0) return;
      const rows = this.entries.filter((one) => one.kind === "row");
      const to = rows.find((one) => one.row === event.row);
      const hosts = rows.filter((one) => one.side === event.side && one.lane.thread === event.level.launcher[event.place]);
      const from = ["calls", "operators", "ranges"].map((kind) => hosts.find((one) => one.lane.kind === kind)).find(Boolean);
      if (!to || !from) return;
      const start = event.level.start[event.place], at = (ns) => BESIDE + (ns - this.view.from) * this.scale;
      const shape = { x1: at(start - launched), y1: TOP + from.y + from.height / 2, x2: at(start), y2: TOP + to.y + to.height / 2 };
      this.arrow.attr({ invisible: false, shape });
    }

    // The first of two places to measure between, then the distance.
    measure(x) {
      const at = this.view.from + (x - BESIDE) / this.scale;
      const first = this.view.first;
      this.view.first = first === undefined ? at : undefined;
      const [low, high] = [Math.min(first ?? at, at), Math.max(first ?? at, at)];
      const said = first === undefined ? "; Shift and click another place to measure the time between" : "";
      kernelscope.say(this.element, said ? `${moment(at, this.seen, this.ends)}${said}` : `${Math.round(high - low)} ns (${duration(high - low)}) from ${moment(low, this.seen, this.ends)} to ${moment(high, this.seen, this.ends)}`);
    }

    goToRow(event) {
      const said = described(event).join("; ");
      const gone = keysOf(event.side, event.lane, event.level.label[event.place], this.sides.length === 1).some(kernelscope.goTo);
      kernelscope.say(this.element, gone ? said : `${said}. No table has a row for it.`);
    }

    listenToTheMouse() {
      const canvas = this.chart.getZr(), style = { fill: "none", stroke: this.theme.colours.ink, lineWidth: 2 };
      this.frame = new echarts.graphic.Rect({ silent: true, z: 100, invisible: true, shape: {}, style });
      this.arrow = new echarts.graphic.Line({ silent: true, z: 99, invisible: true, shape: {}, style: { ...style, lineWidth: 1.5, lineDash: [4, 3] } });
      canvas.add(this.frame);
      canvas.add(this.arrow);
      this.tip = made("div", { className: "tip", hidden: true });
      this.tip.style.cssText = TIP;
      this.element.append(this.tip);
      canvas.on("mousemove", ({ offsetX, offsetY }) => this.point(this.under(offsetX, offsetY), offsetX, offsetY));
      canvas.on("globalout", () => this.mark(null));
      canvas.on("click", ({ offsetX, offsetY, event }) => {
        if (event?.shiftKey) this.measure(offsetX);
        else this.click(this.under(offsetX, offsetY));
      });
      // ECharts handles every turn of the wheel, whatever its options; without a key it should scroll the page
      this.element.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.shiftKey) event.stopPropagation();
      }, { capture: true, passive: true, signal: this.view.stop.signal });
      this.element.style.touchAction = "pan-y";
    }

    // --- searching -----------------------------------------------------------------------------------------------------------

    forget() { Object.assign(this, { next: 0, current: null, found: null }); }

    look() {
      this.view.words = this.box.value;
      this.hits = search(this.sides, this.view.words);
      this.forget();
      this.tell();
      this.again();
    }

    tell() {
      const { searching, count, busy, together } = this.hits;
      const more = together ? " with events merged with them" : "";
      const told = `${count} event${count === 1 ? "" : "s"}, ${duration(busy)}${more}; Enter shows the next`;
      this.outcome.textContent = searching ? told : "";
    }

    // Shows the next match, in the order of lanes, at a fifth of the width.
    showNext() {
      this.found ??= foundIn(this.sides);
      if (!this.found.length) return;
      const number = this.next % this.found.length, event = this.found[number];
      this.next += 1;
      const start = event.level.start[event.place], length = Math.max(event.level.end[event.place] - start, NARROWEST);
      if (!this.entries.some((entry) => entry.row === event.row)) this.toggle();
      this.show(start - 2 * length, start + 3 * length);
      this.current = { ...this.entries.find((entry) => entry.row === event.row), ...event };
      this.mark(this.current);
      kernelscope.say(this.element, `${number + 1} of ${this.found.length}: ${described(event).join("; ")}`);
    }

    // --- tools and keys ------------------------------------------------------------------------------------------------------

    toggle() {
      this.view.all = !this.view.all;
      this.rows.ariaPressed = String(this.view.all);
      this.layOut();
      this.again();
    }

    save() {
      save(traceOf(this.sides), "timeline.json");
      kernelscope.say(this.element, "timeline.json is saved; open it at ui.perfetto.dev");
    }

    searchBox() {
      const box = made("input", { type: "search", value: this.view.words, placeholder: "name, layer, phase, kind" });
      let waiting = 0;
      box.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => this.look(), 150);
      });
      box.addEventListener("keydown", ({ key }) => {
        if (key !== "Enter" && key !== "Escape") return;
        clearTimeout(waiting);
        if (key === "Escape") {
          box.value = "";
          this.element.focus();
        }
        if (this.view.words !== box.value) this.look();
        if (key === "Enter") this.showNext();
      });
      return box;
    }

    offerTools() {
      const button = (textContent, ariaLabel, action) => {
        const one = made("button", { type: "button", textContent, ariaLabel });
        one.addEventListener("click", action);
        return one;
      };
      Object.assign(this, { box: this.searchBox(), outcome: made("output") });
      this.rows = button("All rows", null, () => this.toggle());
      this.rows.ariaPressed = String(this.view.all);
      const deep = this.sides.some((side) => side.lanes.some((lane) => lane.quiet || lane.rows.length > FEW));
      const hint = made("p", { className: "note", textContent: HINT });
      hint.style.cssText = "flex-basis:100%;margin:0";
      kernelscope.tools(this.element).replaceChildren(
        made("label", {}, "Search ", this.box), this.outcome, button("+", "zoom in", () => this.zoomBy(0.5)),
        button("−", "zoom out", () => this.zoomBy(2)), button("Show all", "show the whole time", () => this.show(this.begins, this.ends)),
        ...(this.firstShown() ? [button("One step", "show one step", () => this.show(...this.firstShown()))] : []),
        ...(deep ? [this.rows] : []), button("Save for Perfetto", "save this timeline as a trace for ui.perfetto.dev", () => this.save()), hint,
      );
      this.tell();
    }

    // Between the tools, which are not printed, and the chart.
    explainColours(data) {
      this.view.legend?.remove();
      this.view.legend = made("div", {}, ...legendOf(data, this.fills));
      this.element.before(this.view.legend);
    }

    listenToKeys() {
      const keys = {
        ArrowLeft: () => this.moveBy(-0.2), ArrowRight: () => this.moveBy(0.2), Home: () => this.show(this.begins, this.ends),
        "+": () => this.zoomBy(0.5), "=": () => this.zoomBy(0.5), "-": () => this.zoomBy(2), "/": () => this.box.focus(),
        w: () => this.zoomBy(0.5), s: () => this.zoomBy(2), a: () => this.moveBy(-0.2), d: () => this.moveBy(0.2),
        Escape: () => this.mark(null), Enter: () => { if (this.current) this.tellAll(this.current); },
      };
      this.element.addEventListener("keydown", (event) => {
        if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        keys[event.key]();
      }, { signal: this.view.stop.signal });
    }
  }

  kernelscope.charts.timeline = (element, data, theme) => {
    registerBars();
    const before = views.get(element);
    before?.stop.abort();
    const view = before ?? { from: 0, to: null, words: "", all: false, legend: null, sides: prepared(data), details: null, told: null };
    view.stop = new AbortController();
    views.set(element, view);
    new Timeline(element, data, theme, view);
  };
})();
