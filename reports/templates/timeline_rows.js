"use strict";
// How a timeline's rows look: their colours, a path for each of them, and the names that fit. Beside it, the legend.
kernelscope.rows = (() => {
  const { levelFor, firstAfter, textOf } = kernelscope.events;
  const { made } = kernelscope;
  const LETTER = 6.4; // approximate pixels of a letter

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

  return { TINTS, tintOf, coloured, registerBars, drawnRow, drawnText, legendOf };
})();
