"use strict";
// The timeline of a recording, or of several: rows of events, with sides aligned at the steps that are shown first. ECharts provides
// axes, zoom and canvas; this script chooses what to draw: events narrower than a pixel are merged, level by level, so a row never
// has more to draw than the page has pixels. All times are ns; 0 is where the recording begins, or the steps shown first.
(() => {
  const ROW = 13, OWNER = 20, LANE = 20, SIDE = 32; // heights in pixels
  const FEW = 6; // rows of a lane shown at first
  const FINEST = 64; // ns; levels are four times as coarse each
  const LETTER = 6.4; // approximate pixels of a letter
  const NARROWEST = 20; // ns: the narrowest zoom
  const views = new WeakMap(); // element -> what survives drawing it again: {from, to, words, all, sides, legend, stop}

  const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const unitOf = (ns) => UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS[3];
  const duration = (ns) => {
    const [unit, size] = unitOf(ns);
    return `${size === 1 || ns >= 100 * size ? Math.round(ns / size) : (ns / size).toPrecision(3)} ${unit}`;
  };
  // A time as precise as the visible range needs; its unit suits `reach`, so neighbouring times share a unit.
  const moment = (ns, seen, reach) => {
    const [unit, size] = unitOf(reach);
    const decimals = Math.max(0, Math.min(Math.log10(size), 2 - Math.floor(Math.log10(seen / size))));
    return `${(ns / size).toFixed(decimals)} ${unit}`;
  };

  // --- levels: columns of events of one row, sorted, none over another -------------------------------------------------------

  const blank = (count) => ({
    start: new Float64Array(count), end: new Float64Array(count), busy: new Float64Array(count), longest: new Float64Array(count),
    events: new Int32Array(count), label: new Int32Array(count), found: new Uint8Array(count),
  });
  const cut = (level, count) => (
    Object.fromEntries(Object.entries(level).map(([name, column]) => [name, column.subarray(0, count)]))
  );

  const decoded = (row, begins) => {
    const level = blank(row.label.length);
    let at = begins;
    for (let i = 0; i < row.label.length; i += 1) {
      level.start[i] = at + row.gap[i];
      at = level.end[i] = level.start[i] + row.lasted[i];
      level.busy[i] = row.busy ? row.busy[i] : row.lasted[i];
      level.events[i] = row.events ? row.events[i] : 1;
      level.longest[i] = row.lasted[i];
      level.label[i] = row.label[i];
    }
    level.launched = row.launched; // how long before its start each was launched (-1: unknown), and by which thread
    level.launcher = row.launcher;
    return [level];
  };

  // Successive events shorter than `size` in one interval of this length are merged and named after the longest of them, or after the
  // longest that matches the search.
  const coarser = ({ start, end, busy, longest, events, label, found }, size) => {
    const into = blank(start.length);
    let last = -1, before = -1;
    for (let i = 0; i < start.length; i += 1) {
      const here = end[i] - start[i] < size ? Math.floor(start[i] / size) : -1;
      const joins = here >= 0 && here === before;
      before = here;
      if (!joins) into.start[last += 1] = start[i];
      into.end[last] = end[i];
      into.busy[last] += busy[i];
      into.events[last] += events[i];
      if (joins && (found[i] - into.found[last] || longest[i] - into.longest[last]) <= 0) continue;
      into.longest[last] = longest[i];
      into.label[last] = label[i];
      into.found[last] = found[i];
    }
    return cut(into, last + 1);
  };

  const levelFor = (row, perPixel) => {
    const number = Math.max(0, Math.floor(Math.log(2 * perPixel / FINEST) / Math.log(4)) + 1);
    while (row.levels.length <= number) row.levels.push(coarser(row.levels.at(-1), FINEST * 4 ** (row.levels.length - 1)));
    return row.levels[number];
  };

  // The first event that ends after a time.
  const firstAfter = (level, time) => {
    let low = 0, high = level.end.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (level.end[middle] > time) high = middle; else low = middle + 1;
    }
    return low;
  };

  // --- what a label says -----------------------------------------------------------------------------------------------------

  const textOf = (side, key, label) => side.texts[key]?.[side.labels[key][label]] ?? null; // -1 if unknown
  const KEYS = ["name", "layer", "phase", "kind", "library", "problem", "launch", "arguments"];

  const described = ({ side, lane, level, place }) => {
    const label = level.label[place], events = level.events[place], length = level.end[place] - level.start[place];
    const more = KEYS.slice(1).map((key) => textOf(side, key, label)).filter(Boolean).join(" · ");
    const [begun, over] = [level.start[place], level.end[place]].map((ns) => (
      moment(ns - side.begins, length || 1, level.end[place] - side.begins || 1)
    ));
    const when = `from ${begun} to ${over}`;
    const share = `${(100 * level.busy[place] / side.wall).toFixed(2)}% of ${duration(side.wall)}`;
    return [
      textOf(side, "name", label) ?? "unnamed", more,
      events > 1 ? `the longest of ${events} events, together ${duration(level.busy[place])} (${share}), ${when}`
        : `${duration(length)} (${share}), ${when}`,
      `${side.name}, ${lane.name}`,
    ].filter(Boolean);
  };

  // The event in the finest level, the only one that knows its launch; merged events stay merged.
  const exactly = (event) => {
    const [finest] = event.row.levels;
    if (event.level === finest || event.level.events[event.place] > 1) return event;
    let low = 0, high = finest.start.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (finest.start[middle] < event.level.start[event.place]) low = middle + 1; else high = middle;
    }
    return finest.start[low] === event.level.start[event.place] ? { ...event, level: finest, place: low } : event;
  };

  // --- the row of a table ----------------------------------------------------------------------------------------------------

  // The keys to find a table row by, most specific first. alone: whether the page has a single run, whose tables name no side.
  const keysOf = (side, lane, label, alone) => {
    const [name, layer, phase, kind, library, problem] = KEYS.map((key) => textOf(side, key, label));
    const mine = alone ? {} : { side: side.name };
    const known = (keys) => Object.fromEntries(Object.entries(keys).filter(([, value]) => value !== null));
    const work = (key) => [
      { ...mine, [key]: name, kind, layer, phase, problem },
      { ...mine, [key]: name, layer, phase },
      { ...mine, [key]: name, layer },
    ];
    const owned = (cause) => [{ cause }, { kind: cause?.startsWith("device: ") ? `(${cause})` : `(host: ${cause})` }];
    const own = {
      step: owned(name?.split(" + ")[0]), calls: owned(kind), copies: owned(`device: ${name}`),
      kernels: work("kernel"), operators: work("operator"), ranges: [{ ...mine, range: name }],
      lines: [{ ...mine, file: library, line: problem?.replace("line ", "") ?? null }],
    };
    const layers = layer === null ? [] : [{ layer, phase }, { layer }];
    return [...(name === null ? [] : own[lane.kind] ?? []), ...layers].map(known);
  };

  // --- what there is to draw -------------------------------------------------------------------------------------------------

  // Returns the sides with drawable rows.
  const prepared = (data) => data.sides.map((side) => ({
    ...side,
    lanes: side.lanes.map((lane) => ({ ...lane, rows: lane.rows.map((row) => ({ levels: decoded(row, side.begins) })) })),
  }));

  // Returns everything to draw with its place: {kind: side, lane or row, y, height, ...}, and the whole height.
  const laidOut = (sides, all) => {
    const entries = [];
    let y = 0;
    const add = (entry, height) => { entries.push({ ...entry, y, height }); y += height; };
    for (const side of sides) {
      const head = entries.length;
      add({ kind: "side", side, text: side.title }, SIDE);
      for (const lane of side.lanes) {
        if (lane.quiet && !all) continue;
        const shown = all ? lane.rows : lane.rows.slice(0, FEW);
        const hidden = lane.rows.length - shown.length;
        add({ kind: "lane", side, lane, text: hidden ? `${lane.title}; ${hidden} deeper rows not shown` : lane.title }, LANE);
        for (const row of shown) add({ kind: "row", side, lane, row }, lane.kind === "step" ? OWNER : ROW);
      }
      const quiet = all ? 0 : side.lanes.filter((lane) => lane.quiet).length;
      if (quiet) add({ kind: "lane", side, text: `${quiet} threads that only wait in the operating system are not shown` }, LANE);
      entries[head].bottom = y;
    }
    return { entries, height: y };
  };

  // Marks the labels of every side that match the words; returns the number and the ns of these events, and whether they include
  // short events merged with them.
  const search = (sides, words) => {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0, busy = 0, together = false;
    for (const side of sides) {
      const hits = side.labels.name.map((_, label) => {
        const text = KEYS.map((key) => textOf(side, key, label) ?? "").join(" ").toLowerCase();
        return wanted.length > 0 && wanted.every((word) => text.includes(word)) ? 1 : 0;
      });
      for (const lane of side.lanes) {
        for (const row of lane.rows) {
          const [level] = row.levels;
          row.levels.length = 1;
          for (let i = 0; i < level.label.length; i += 1) {
            level.found[i] = hits[level.label[i]];
            if (level.found[i]) { count += 1; busy += level.busy[i]; together ||= level.events[i] > 1; }
          }
        }
      }
    }
    return { searching: wanted.length > 0, count, busy, together };
  };

  // All matches, in the order of lanes.
  const foundIn = (sides) => {
    const found = [];
    for (const side of sides) {
      for (const lane of side.lanes) {
        for (const row of lane.rows) {
          const [level] = row.levels;
          level.found.forEach((hit, place) => { if (hit) found.push({ side, lane, row, level, place }); });
        }
      }
    }
    return found;
  };

  // Black or white, whichever is readable on a colour (#rrggbb).
  const inkOn = (colour) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    return 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 ? "#000000" : "#ffffff";
  };
  // Events without a kind, such as ranges and operators, get a tint from their name, so that neighbours differ.
  const TINTS = ["#a9c1d9", "#d9c3a9", "#b5d0b5", "#d3b5cf", "#c9c9a3", "#a9cfd0", "#d9b3ac", "#bdb9dc"];
  const tintOf = (name) => {
    let number = 0;
    for (let i = 0; i < name.length; i += 1) number = (number * 31 + name.charCodeAt(i)) >>> 0;
    return number % TINTS.length;
  };
  const TINTED = new Set(["ranges", "operators", "calls", "lines", "syncs", "copies"]);
  const coloured = (legend, { colours }) => legend.map(({ colour }) => {
    if (colour.startsWith("#")) return colour;
    return colour === "soft" ? colours.soft : colours.phases[colour] ?? colours.series[Number(colour)];
  });

  // Many rectangles as one path: x, y, width and height of each after the other.
  const registerBars = () => echarts.graphic.getShapeClass("timeline-bars") ?? echarts.graphic.registerShape(
    "timeline-bars",
    echarts.graphic.extendShape({
      shape: { bars: [] },
      buildPath: (path, { bars }) => {
        for (let i = 0; i < bars.length; i += 4) path.rect(bars[i], bars[i + 1], bars[i + 2], bars[i + 3]);
      },
    }),
  );

  // A name in at most so many letters, without namespaces (aten::) if it does not fit otherwise.
  const fitted = (name, room) => {
    const short = name.length > room && /^[\w:]+$/.test(name) ? name.slice(name.lastIndexOf("::") + 1).replace(/^:/, "") : name;
    return short.length > room ? `${short.slice(0, room - 1)}…` : short;
  };

  // Returns the drawing of a row: a path for each colour, and the names that fit. at: {left, scale, x, width} in pixels.
  const drawnRow = (entry, y, at, fills, { searching, font }) => {
    const { side, lane, row } = entry;
    const level = levelFor(row, 1 / at.scale);
    const slots = lane.kind === "step" ? side.owners : TINTED.has(lane.kind) ? side.tinted : side.colours;
    const copies = lane.kind === "copies" ? side.copies : -1; // their common colour, if the first lane has it
    const height = entry.height - 2;
    const paths = new Map(), texts = [];
    const until = (at.x + at.width - at.left) / at.scale;
    for (let i = firstAfter(level, (at.x - at.left) / at.scale); i < level.start.length && level.start[i] < until; i += 1) {
      const x = Math.max(at.left + level.start[i] * at.scale, at.x - 2);
      const end = Math.min(at.left + level.end[i] * at.scale, at.x + at.width + 2);
      const width = Math.max(end - x - (end - x > 3 ? 0.7 : 0), 0.7);
      const length = level.end[i] - level.start[i];
      const tall = level.events[i] > 1 && length > 0 ? Math.max(height * Math.min(level.busy[i] / length, 1), 3) : height;
      const slot = copies >= 0 ? copies : slots[level.label[i]], faded = searching && !level.found[i];
      const key = slot * 2 + faded;
      if (!paths.has(key)) paths.set(key, []);
      paths.get(key).push(x, y + 1 + height - tall, width, tall);
      if (width > 30 && level.events[i] === 1 && !faded) {
        const text = fitted(textOf(side, "name", level.label[i]) ?? "", Math.floor((width - 6) / LETTER));
        texts.push({
          type: "text", silent: true, x: x + 3, y: y + 2 + height / 2,
          style: { text, font: `10.5px ${font}`, verticalAlign: "middle", fill: inkOn(fills[slot]) },
        });
      }
    }
    const shapes = [...paths].map(([key, bars]) => ({
      type: "timeline-bars", silent: true, shape: { bars }, style: { fill: fills[key >> 1], opacity: key % 2 ? 0.25 : 1 },
    }));
    return [...shapes, ...texts];
  };

  const drawnText = (entry, y, at, colours) => {
    const big = entry.kind === "side";
    const children = [{
      type: "text", silent: true, x: at.x + 2, y: y + entry.height - 2,
      style: {
        text: entry.text, font: `${big ? "600 13" : "11.5"}px ${colours.font}`, verticalAlign: "bottom", overflow: "truncate",
        width: at.width - 4, fill: big ? colours.ink : colours.soft,
      },
    }];
    const end = at.left + (entry.side.begins + entry.side.wall) * at.scale;
    if (big && end <= at.x + at.width + 1) {
      const shape = { x1: end, x2: end, y1: y + entry.height, y2: y + entry.bottom - entry.y };
      children.push({ type: "line", silent: true, shape, style: { stroke: colours.ink, lineWidth: 1.5 } });
    }
    return children;
  };

  // --- buttons and boxes -----------------------------------------------------------------------------------------------------

  const made = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const legendOf = (data, fills) => ["owners", "work"].map((of) => {
    const entries = data.legend.map((entry, place) => ({ ...entry, fill: fills[place] })).filter((entry) => entry.of === of);
    if (!entries.length) return "";
    const shown = entries.map(({ title, fill }) => {
      const swatch = made("i", { ariaHidden: "true" });
      swatch.style.cssText = `display:inline-block;width:.8em;height:.8em;margin-right:.35em;background:${fill}`;
      const whole = made("span", {}, swatch, title);
      whole.style.cssText = "display:inline-block;margin-right:1em";
      return whole;
    });
    const more = of === "owners" ? [] : ["ranges, operators, calls and copies: a tint for each name"];
    return made("p", { className: "note" }, of === "owners" ? data.owned ?? "first lane: " : "all others: ", ...shown, ...more);
  });

  const HINT = "Drag, A and D or arrow keys: move. Ctrl and wheel, W and S or + and −: zoom. Home: all. /: search; Enter there shows "
    + "the next event. Click, or Enter on the event shown: details. Shift and two clicks: the time between them.";

  // --- for Perfetto ----------------------------------------------------------------------------------------------------------

  // What is on the page as a trace that ui.perfetto.dev opens (Chrome's JSON): a process for each side, a thread for each row, as
  // threads may not hold events that overlap. Events that the page holds merged stay merged.
  const traceOf = (sides) => {
    const traceEvents = [];
    sides.forEach((side, pid) => {
      let tid = 0;
      const name = (what, of, at) => traceEvents.push({ ph: "M", name: what, pid, tid: at, args: { name: of } });
      name("process_name", side.name, 0);
      for (const lane of side.lanes) {
        lane.rows.forEach(({ levels: [level] }, depth) => {
          tid += 1;
          name("thread_name", depth ? `${lane.name}, row ${depth + 1}` : lane.name, tid);
          traceEvents.push({ ph: "M", name: "thread_sort_index", pid, tid, args: { sort_index: tid } });
          level.label.forEach((label, place) => {
            const known = KEYS.slice(1).map((key) => [key, textOf(side, key, label)]).filter(([, value]) => value);
            const merged = level.events[place] > 1 ? [["events", level.events[place]], ["busy_ns", level.busy[place]]] : [];
            const [ts, dur] = [level.start[place] - side.begins, level.end[place] - level.start[place]].map((ns) => ns / 1000);
            traceEvents.push({
              ph: "X", pid, tid, ts, dur, name: textOf(side, "name", label) ?? "unnamed", args: Object.fromEntries([...known, ...merged]),
            });
          });
        });
      }
    });
    return JSON.stringify({ displayTimeUnit: "ns", traceEvents });
  };

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
