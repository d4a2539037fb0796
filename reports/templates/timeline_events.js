"use strict";
// What a timeline holds: the events of each row, merged where they are narrower than a pixel, level by level, so a row never has
// more to draw than the page has pixels; what they are called, and which row of a table they belong to. All times are ns; 0 is where
// the recording begins, or the steps shown first.
kernelscope.events = (() => {
  const ROW = 13, OWNER = 20, LANE = 20, SIDE = 32; // heights in pixels
  const FEW = 6; // rows of a lane shown at first
  const FINEST = 64; // ns; levels are four times as coarse each

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

  return {
    FEW, KEYS, duration, moment, levelFor, firstAfter, textOf, described, exactly, keysOf, prepared, laidOut, search, foundIn, traceOf,
  };
})();
