"use strict";
// The timeline of one step: rows of events below each other, sides aligned at the step's start. Axes, zoom and canvas are ECharts';
// what is drawn of a row is chosen here: where events are narrower than a pixel they are put together, level by level, so that
// a row never has more to draw than the page has pixels. All times are ns from the step's start.
(() => {
  const ROW = 13, OWNER = 20, LANE = 20, SIDE = 32; // heights in pixels
  const FEW = 6; // rows of a lane that are shown at first
  const FINEST = 64; // ns; levels are four times as coarse each
  const LETTER = 6.4; // pixels of one letter, about
  const NARROWEST = 20; // ns that can be zoomed to
  const views = new WeakMap(); // element -> what outlives drawing it again: {from, to, words, all, sides, legend, stop}

  const UNITS = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]];
  const unitOf = (ns) => UNITS.find(([, size]) => Math.abs(ns) >= size) ?? UNITS[3];
  const duration = (ns) => {
    const [unit, size] = unitOf(ns);
    return `${size === 1 || ns >= 100 * size ? Math.round(ns / size) : (ns / size).toPrecision(3)} ${unit}`;
  };
  // A time as precise as needed where so many ns are seen; its unit suits `reach`, so that times beside each other have one unit.
  const moment = (ns, seen, reach) => {
    const [unit, size] = unitOf(reach);
    const decimals = Math.max(0, Math.min(Math.log10(size), 2 - Math.floor(Math.log10(seen / size))));
    return `${(ns / size).toFixed(decimals)} ${unit}`;
  };

  // --- levels: columns of events of one row, sorted, none over another ----------------------------------------------------------

  const blank = (count) => ({
    start: new Float64Array(count), end: new Float64Array(count), busy: new Float64Array(count), longest: new Float64Array(count),
    events: new Int32Array(count), label: new Int32Array(count), found: new Uint8Array(count),
  });
  const cut = (level, count) => Object.fromEntries(Object.entries(level).map(([name, column]) => [name, column.subarray(0, count)]));

  const decoded = (row) => {
    const level = blank(row.label.length);
    let at = 0;
    for (let i = 0; i < row.label.length; i += 1) {
      level.start[i] = at + row.gap[i];
      at = level.end[i] = level.start[i] + row.lasted[i];
      level.busy[i] = row.busy ? row.busy[i] : row.lasted[i];
      level.events[i] = row.events ? row.events[i] : 1;
      level.longest[i] = row.lasted[i];
      level.label[i] = row.label[i];
    }
    return [level];
  };

  // Events shorter than `size` that follow each other in one interval of this length become one, named after the longest (found) one.
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

  // --- what a label says ----------------------------------------------------------------------------------------------------------

  const textOf = (side, key, label) => (side.labels[key][label] < 0 ? null : side.texts[key][side.labels[key][label]]);
  const KEYS = ["name", "layer", "phase", "kind", "library", "problem"];

  const described = ({ side, lane, level, place }) => {
    const label = level.label[place], events = level.events[place], length = level.end[place] - level.start[place];
    const more = KEYS.slice(1).map((key) => textOf(side, key, label)).filter(Boolean).join(" · ");
    const [begun, over] = [level.start[place], level.end[place]].map((ns) => moment(ns, length || 1, level.end[place] || 1));
    const when = `from ${begun} to ${over}`;
    const share = `${(100 * level.busy[place] / side.wall).toFixed(2)}% of ${duration(side.wall)}`;
    return [
      textOf(side, "name", label) ?? "unnamed", more,
      events > 1 ? `the longest of ${events} events, together ${duration(level.busy[place])} (${share}), ${when}`
        : `${duration(length)} (${share}), ${when}`,
      `${side.name}, ${lane.title.split(":")[0]}`,
    ].filter(Boolean);
  };

  // --- the row of a table -----------------------------------------------------------------------------------------------------------

  // By what the row of a table may be found, the closest first. alone: whether the page is of one run, whose tables name none.
  const keysOf = (side, lane, label, alone) => {
    const [name, layer, phase, kind, library, problem] = KEYS.map((key) => textOf(side, key, label));
    const mine = alone ? {} : { side: side.name };
    const known = (keys) => Object.fromEntries(Object.entries(keys).filter(([, value]) => value !== null));
    const work = (key) => [
      { ...mine, [key]: name, kind, layer, phase, problem }, { ...mine, [key]: name, layer, phase }, { ...mine, [key]: name, layer },
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

  // --- what there is to draw ------------------------------------------------------------------------------------------------------

  // Returns the sides with rows that can be drawn.
  const prepared = (data) => data.sides.map((side) => ({
    ...side, lanes: side.lanes.map((lane) => ({ ...lane, rows: lane.rows.map((row) => ({ levels: decoded(row) })) })),
  }));

  // Returns everything that is drawn with its place: {kind: side, lane or row, y, height, ...}, and the whole height.
  const laidOut = (sides, all) => {
    const entries = [];
    let y = 0;
    const add = (entry, height) => { entries.push({ ...entry, y, height }); y += height; };
    for (const side of sides) {
      const head = entries.length;
      add({ kind: "side", side, text: side.title }, SIDE);
      for (const lane of side.lanes) {
        const shown = all ? lane.rows : lane.rows.slice(0, FEW);
        const hidden = lane.rows.length - shown.length;
        add({ kind: "lane", side, lane, text: hidden ? `${lane.title}; ${hidden} deeper rows not shown` : lane.title }, LANE);
        for (const row of shown) add({ kind: "row", side, lane, row }, lane.kind === "step" ? OWNER : ROW);
      }
      entries[head].bottom = y;
    }
    return { entries, height: y };
  };

  // Marks what the words say in every label of every side; returns how many events and ns that is, and whether short ones that were
  // recorded beside them are in it.
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

  // Everything that was found, in the order of lanes.
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

  const luminance = (colour) => {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255);
    return 0.299 * red + 0.587 * green + 0.114 * blue;
  };
  const coloured = (legend, { colours }) => legend.map(({ colour }) => {
    if (colour === "computing") return colours.line;
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

  // A name in so many letters: without its namespaces (aten::) where it does not fit otherwise.
  const fitted = (name, room) => {
    const short = name.length > room && /^[\w:]+$/.test(name) ? name.slice(name.lastIndexOf("::") + 1).replace(/^:/, "") : name;
    return short.length > room ? `${short.slice(0, room - 1)}…` : short;
  };

  // Returns what a row looks like: a path for each colour, and the names that fit. at: {left, scale, x, width} in pixels.
  const drawnRow = (entry, y, at, fills, { searching, font }) => {
    const { side, lane, row } = entry;
    const level = levelFor(row, 1 / at.scale);
    const slots = lane.kind === "step" ? side.owners : side.colours;
    const height = entry.height - 2;
    const paths = new Map(), texts = [];
    const until = (at.x + at.width - at.left) / at.scale;
    for (let i = firstAfter(level, (at.x - at.left) / at.scale); i < level.start.length && level.start[i] < until; i += 1) {
      const x = Math.max(at.left + level.start[i] * at.scale, at.x - 2);
      const end = Math.min(at.left + level.end[i] * at.scale, at.x + at.width + 2);
      const width = Math.max(end - x - (end - x > 3 ? 0.7 : 0), 0.7);
      const length = level.end[i] - level.start[i];
      const tall = level.events[i] > 1 && length > 0 ? Math.max(height * Math.min(level.busy[i] / length, 1), 3) : height;
      const slot = slots[level.label[i]], faded = searching && !level.found[i];
      const key = slot * 2 + faded;
      if (!paths.has(key)) paths.set(key, []);
      paths.get(key).push(x, y + 1 + height - tall, width, tall);
      if (width > 30 && level.events[i] === 1 && !faded) {
        const text = fitted(textOf(side, "name", level.label[i]) ?? "", Math.floor((width - 6) / LETTER));
        texts.push({
          type: "text", silent: true, x: x + 3, y: y + 2 + height / 2,
          style: { text, font: `10.5px ${font}`, verticalAlign: "middle", fill: luminance(fills[slot]) > 0.5 ? "#000000" : "#ffffff" },
        });
      }
    }
    const shapes = [...paths].map(([key, bars]) => ({
      type: "timeline-bars", silent: true, shape: { bars }, style: { fill: fills[key >> 1], opacity: key % 2 ? 0.18 : 1 },
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
    const end = at.left + entry.side.wall * at.scale;
    if (big && end <= at.x + at.width + 1) {
      const shape = { x1: end, x2: end, y1: y + entry.height, y2: y + entry.bottom - entry.y };
      children.push({ type: "line", silent: true, shape, style: { stroke: colours.ink, lineWidth: 1.5 } });
    }
    return children;
  };

  // --- buttons and boxes ------------------------------------------------------------------------------------------------------------

  const made = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const legendOf = (data, fills) => ["owners", "work"].map((of) => {
    const entries = data.legend.map((entry, place) => ({ ...entry, fill: fills[place] })).filter((entry) => entry.of === of);
    const shown = entries.map(({ title, fill }) => {
      const swatch = made("i", { ariaHidden: "true" });
      swatch.style.cssText = `display:inline-block;width:.8em;height:.8em;margin-right:.35em;background:${fill}`;
      const whole = made("span", {}, swatch, title);
      whole.style.cssText = "display:inline-block;margin-right:1em";
      return whole;
    });
    const line = made("p", { className: "note" }, of === "owners" ? "first lane: " : "all others: ", ...shown);
    return line;
  });

  const HINT = "Drag, or arrow keys: move. Ctrl and wheel, or + and −: zoom. Home: all. /: search; Enter there shows the next "
    + "event. A click, or Enter on the event shown, goes to the row of a table.";

  // --- the part -----------------------------------------------------------------------------------------------------------------------

  kernelscope.charts.timeline = (element, data, theme) => {
    registerBars();
    views.get(element)?.stop.abort();
    const { from = 0, to = null, words = "", all = false, sides = prepared(data), legend = null } = views.get(element) ?? {};
    const wall = Math.max(...sides.map((side) => side.wall));
    const view = { from, to: to ?? wall, words, all, sides, legend, stop: new AbortController() };
    views.set(element, view);
    const fills = coloured(data.legend, theme);
    let { entries, height } = laidOut(sides, view.all);
    let hits = search(sides, view.words);
    const top = 26, bottom = 62, side = 6;
    element.style.height = `${height + top + bottom}px`;
    const chart = kernelscope.echart(element, theme);

    const draw = (params, api) => {
      const entry = entries[params.dataIndex];
      const [left, y] = api.coord([0, entry.y]);
      const at = { left, scale: api.size([1e6, 0])[0] / 1e6, x: params.coordSys.x, width: params.coordSys.width };
      const children = entry.kind === "row" ? drawnRow(entry, y, at, fills, { searching: hits.searching, font: theme.colours.font }) : drawnText(entry, y, at, theme.colours);
      return { type: "group", $mergeChildren: false, children }; // else what an empty row held before would stay
    };
    const seen = () => view.to - view.from;
    // while the axis is drawn: it is zoomed before the view is told of it
    const labelled = (ns) => {
      const [from, to] = chart.getModel().getComponent("xAxis").axis.scale.getExtent();
      return moment(ns, to - from, to);
    };
    const axis = {
      type: "value", min: 0, max: wall, splitNumber: 4, splitLine: { show: true },
      axisLabel: { formatter: labelled, hideOverlap: true, alignMinLabel: "left", alignMaxLabel: "right" },
    };
    const zoom = { xAxisIndex: [0, 1], filterMode: "none", startValue: view.from, endValue: view.to, minValueSpan: NARROWEST };
    const option = () => ({
      grid: { left: side, right: side, top, bottom },
      xAxis: [{ ...axis, position: "top" }, { ...axis, position: "bottom", splitLine: { show: false } }],
      yAxis: { type: "value", min: 0, max: height, inverse: true, show: false },
      dataZoom: [
        { ...zoom, type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: "shift", preventDefaultMouseMove: false, throttle: 0 },
        {
          ...zoom, type: "slider", height: 20, bottom: 8, left: 14, right: 14, throttle: 0, showDetail: false, brushSelect: false,
          showDataShadow: false, borderColor: theme.colours.line, fillerColor: `${theme.colours.bar}33`,
          handleStyle: { color: theme.colours.page, borderColor: theme.colours.soft }, moveHandleStyle: { color: theme.colours.soft },
        },
      ],
      series: [{
        type: "custom", renderItem: draw, clip: true, silent: true, encode: { x: 0, y: 1 },
        data: entries.map((entry) => [0, entry.y]),
      }],
    });
    chart.setOption(option());
    const again = () => {
      element.style.height = `${height + top + bottom}px`;
      chart.resize();
      chart.setOption(option(), true);
      mark(null);
    };

    // Shows a time range: kept within the step, and wide enough.
    const show = (start, end) => {
      const width = Math.min(Math.max(end - start, NARROWEST), wall);
      const begin = Math.min(Math.max(start, 0), wall - width);
      chart.dispatchAction({ type: "dataZoom", startValue: begin, endValue: begin + width });
      const [first, last] = [begin, begin + width].map((ns) => moment(ns, width, begin + width));
      kernelscope.say(element, `${first} to ${last} is shown`);
    };
    const zoomBy = (factor) => {
      const middle = (view.from + view.to) / 2, half = seen() * factor / 2;
      show(middle - half, middle + half);
    };
    chart.on("datazoom", () => {
      const { startValue, endValue } = chart.getOption().dataZoom[0];
      Object.assign(view, { from: startValue, to: endValue });
      mark(null);
    });

    // The event under a place of the canvas: {side, lane, row, entry, level, place}, or null.
    const under = (x, y) => {
      const entry = entries.find((one) => one.y <= y - top && y - top < one.y + one.height);
      if (entry?.kind !== "row") return null;
      const width = element.clientWidth - 2 * side, perPixel = seen() / width;
      const time = view.from + (x - side) * perPixel;
      const level = levelFor(entry.row, perPixel);
      const place = firstAfter(level, time - 2 * perPixel);
      for (let i = place; i < level.start.length && level.start[i] <= time + 2 * perPixel; i += 1) {
        if (level.end[i] >= time || i + 1 === level.start.length || level.start[i + 1] > time + 2 * perPixel) {
          return { ...entry, level, place: i };
        }
      }
      return null;
    };

    const frame = new echarts.graphic.Rect({
      silent: true, z: 100, invisible: true, shape: {}, style: { fill: "none", stroke: theme.colours.ink, lineWidth: 2 },
    });
    chart.getZr().add(frame);
    const tip = made("div", { className: "tip", hidden: true });
    tip.style.cssText = "position:absolute;pointer-events:none;z-index:4;max-width:min(420px,90%);padding:6px 9px;font-size:13px;"
      + "border:1px solid var(--soft);border-radius:4px;background:var(--page);color:var(--ink);overflow-wrap:anywhere;white-space:pre-line";
    element.append(tip);
    // Frames an event; of none, takes frame and tip away.
    const mark = (event) => {
      frame.attr({ invisible: !event });
      tip.hidden = true;
      if (!event) return;
      const scale = (element.clientWidth - 2 * side) / seen();
      const x = Math.max(side + (event.level.start[event.place] - view.from) * scale, side);
      const end = Math.min(side + (event.level.end[event.place] - view.from) * scale, element.clientWidth - side);
      frame.attr({ shape: { x, y: top + event.y, width: Math.max(end - x, 2), height: event.height } });
    };
    const point = (event, x, y) => {
      mark(event);
      if (!event) return;
      tip.hidden = false;
      tip.textContent = described(event).join("\n");
      tip.style.left = `${Math.max(0, Math.min(x + 14, element.clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${y + 18}px`;
    };
    chart.getZr().on("mousemove", ({ offsetX, offsetY }) => point(under(offsetX, offsetY), offsetX, offsetY));
    chart.getZr().on("globalout", () => mark(null));

    const goToRow = (event) => {
      const said = described(event).join("; ");
      const gone = keysOf(event.side, event.lane, event.level.label[event.place], sides.length === 1).some(kernelscope.goTo);
      kernelscope.say(element, gone ? said : `${said}. None of the tables has a row for it.`);
    };
    // Several events that are drawn as one are zoomed into; one event leads to its row.
    chart.getZr().on("click", ({ offsetX, offsetY }) => {
      const event = under(offsetX, offsetY);
      if (!event) return;
      const { level, place } = event, length = level.end[place] - level.start[place];
      if (level.events[place] > 1 && level !== event.row.levels[0]) show(level.start[place] - length / 4, level.end[place] + length / 4);
      else goToRow(event);
    });

    // The next event that was searched for, in the order of lanes; seen at a fifth of the width.
    let next = 0, current = null, found = null;
    const showNext = () => {
      found ??= foundIn(sides);
      if (!found.length) return;
      const event = found[next % found.length];
      next += 1;
      if (!entries.some((entry) => entry.row === event.row)) toggle();
      const length = Math.max(event.level.end[event.place] - event.level.start[event.place], NARROWEST);
      show(event.level.start[event.place] - 2 * length, event.level.start[event.place] + 3 * length);
      current = { ...entries.find((entry) => entry.row === event.row), ...event };
      mark(current);
      kernelscope.say(element, `${(next - 1) % found.length + 1} of ${found.length}: ${described(event).join("; ")}`);
    };

    const outcome = made("output");
    const tell = () => {
      const more = hits.together ? " with what is drawn as one with them" : "";
      outcome.textContent = hits.searching ? `${hits.count} event${hits.count === 1 ? "" : "s"}, ${duration(hits.busy)}${more}; Enter shows the next` : "";
    };
    const box = made("input", { type: "search", value: view.words, placeholder: "name, layer, phase, kind" });
    let waiting = 0;
    const look = () => {
      view.words = box.value;
      hits = search(sides, view.words);
      [next, current, found] = [0, null, null];
      tell();
      again();
    };
    box.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 150); });
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        clearTimeout(waiting);
        if (view.words !== box.value) look();
        showNext();
      }
      if (event.key === "Escape") { box.value = ""; look(); element.focus(); }
    });
    const rows = made("button", { type: "button", textContent: "All rows", ariaPressed: String(view.all) });
    const toggle = () => {
      view.all = !view.all;
      rows.ariaPressed = String(view.all);
      ({ entries, height } = laidOut(sides, view.all));
      again();
    };
    const button = (text, label, action) => {
      const one = made("button", { type: "button", textContent: text, ariaLabel: label });
      one.addEventListener("click", action);
      return one;
    };
    rows.addEventListener("click", toggle);
    const deep = sides.some((one) => one.lanes.some((lane) => lane.rows.length > FEW));
    const hint = made("p", { className: "note", textContent: HINT });
    hint.style.cssText = "flex-basis:100%;margin:0";
    kernelscope.tools(element).replaceChildren(
      made("label", {}, "Search ", box), outcome, button("+", "zoom in", () => zoomBy(0.5)), button("−", "zoom out", () => zoomBy(2)),
      button("Show all", "show the whole time", () => show(0, wall)), ...(deep ? [rows] : []), hint,
    );
    tell();
    view.legend?.remove(); // it stands between the tools, which are not printed, and what it explains
    view.legend = made("div", {}, ...legendOf(data, fills));
    element.before(view.legend);

    const keys = {
      ArrowLeft: () => show(view.from - seen() / 5, view.to - seen() / 5), ArrowRight: () => show(view.from + seen() / 5, view.to + seen() / 5),
      "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2), Home: () => show(0, wall), "/": () => box.focus(),
      Escape: () => mark(null), Enter: () => { if (current) goToRow(current); },
    };
    element.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    }, { signal: view.stop.signal });
    // ECharts takes every turn of the wheel, whatever it was told to take; without a key it scrolls the page
    element.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) event.stopPropagation();
    }, { capture: true, passive: true, signal: view.stop.signal });
    element.style.touchAction = "pan-y";
  };
})();
