"use strict";
// Flame graphs, drawn downwards: a frame's children are below it. data: {several, sides: [{name, steps, names, frames, trees}]}, a tree's
// nodes in columns, depth first (see analysis/flame.py).
(() => {
  const ROW = 21; // px of a row
  const MOST_ROWS = 32;
  const LEAST = 0.7; // px: narrower frames are not drawn
  const states = new WeakMap();

  const duration = (ns) => {
    const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
    return `${(ns / size).toLocaleString("en", { maximumSignificantDigits: 4 })} ${unit}`;
  };
  const percent = (part) => `${(100 * part).toLocaleString("en", { maximumSignificantDigits: 3 })}%`;

  // The parent and the place (ns from the left) of every node; a node's children follow each other from its left edge.
  const placed = (tree) => {
    if (tree.parent) return tree;
    const path = [];
    const [parent, from, inside] = [[], [], []];
    tree.depth.forEach((depth, node) => {
      path.length = depth;
      const above = depth ? path[depth - 1] : -1;
      parent.push(above);
      from.push(above < 0 ? 0 : from[above] + inside[above]);
      inside.push(0);
      if (above >= 0) inside[above] += tree.total_ns[node];
      path.push(node);
    });
    return Object.assign(tree, { parent, from, inside });
  };

  const children = (tree, node) => {
    const found = [];
    for (let next = node + 1; next < tree.depth.length && tree.depth[next] > tree.depth[node]; next++) {
      if (tree.depth[next] === tree.depth[node] + 1) found.push(next);
    }
    return found;
  };

  const above = (tree, node) => {
    const found = [];
    for (let next = tree.parent[node]; next >= 0; next = tree.parent[next]) found.unshift(next);
    return found;
  };

  // The time of each frame in a step, by its path of frames from the top.
  const byPath = (side, tree) => {
    if (!tree.paths) {
      tree.paths = [];
      placed(tree).parent.forEach((parent, node) => {
        tree.paths.push(parent < 0 ? "" : `${tree.paths[parent]}\u0001${side.frames[tree.frame[node]]}\u0002${side.names[tree.name[node]]}`);
      });
    }
    return new Map(tree.paths.map((path, node) => [path, tree.total_ns[node] / tree.per]));
  };

  // The name of each kind of frame in the legend, and its colour of the page; all others are grey.
  const LEGEND = [
    ["phases", ["phase"], 4], ["layers", ["layer"], 0], ["ranges", ["range"], 6], ["lines", ["function", "line"], 3], ["operators", ["operator"], 1], ["calls", ["call"], 5],
    ["kernels", ["kernel"], 2], ["no kernel, or merged", ["whole", "step", "cause", "rest"], null],
  ];

  class View {
    constructor(element, data, theme) {
      const state = states.get(element) ?? { side: 0, tree: 0, other: 0, root: 0, chosen: 0, words: "" };
      states.set(element, state);
      Object.assign(this, { element, data, theme, state });
      this.show();
      this.tools();
      this.listen();
      this.draw();
    }

    show() {
      this.side = this.data.sides[this.state.side];
      this.tree = placed(this.side.trees[this.state.tree]);
      this.other = this.compared();
    }

    // The run to compare with, whose partition's tree has the same phases and layers; null without one.
    compared() {
      const place = this.state.other - 1;
      if (place < 0 || place === this.state.side || this.tree.key !== "cells") return null;
      const side = this.data.sides[place];
      const tree = side.trees.find((one) => one.key === this.tree.key);
      byPath(this.side, this.tree);
      return { name: side.name, tree, times: byPath(side, tree) };
    }

    // Whether the other run has a frame, and how much longer it is here.
    known(node) { return this.other.times.has(this.tree.paths[node]); }
    more(node) { return this.tree.total_ns[node] / this.tree.per - this.other.times.get(this.tree.paths[node]); }

    // The time of the other run's frames directly below a frame that this run lacks.
    absent(node) {
      const { tree, times } = this.other;
      const mine = new Set(children(this.tree, node).map((child) => this.tree.paths[child]));
      const place = tree.paths.indexOf(this.tree.paths[node]);
      const theirs = place < 0 ? [] : children(tree, place).map((child) => tree.paths[child]);
      return theirs.filter((path) => !mine.has(path)).reduce((sum, path) => sum + times.get(path), 0);
    }

    name(node) { return this.side.names[this.tree.name[node]]; }
    time(node) { return duration(this.tree.total_ns[node] / this.tree.per); }
    frame(node) { return this.side.frames[this.tree.frame[node]]; }

    tools() {
      const place = kernelscope.tools(this.element);
      const choice = (label, names, key) => {
        const [box, select] = [document.createElement("label"), document.createElement("select")];
        box.append(`${label} `, select);
        select.style.maxWidth = "100%";
        names.forEach((name, number) => select.append(new Option(name, number, false, number === this.state[key])));
        select.addEventListener("change", () => this.choose({ ...(key === "side" ? { tree: 0 } : {}), [key]: Number(select.value) }));
        return box;
      };
      const search = document.createElement("label");
      this.input = Object.assign(document.createElement("input"), { type: "search", value: this.state.words });
      search.append("Search ", this.input);
      this.input.addEventListener("input", () => this.search(this.input.value));
      const button = (textContent, act) => {
        const made = Object.assign(document.createElement("button"), { type: "button", textContent });
        made.addEventListener("click", act);
        return made;
      };
      const sides = this.data.sides.map((side) => side.name);
      const several = sides.length > 1;
      place.replaceChildren(...(this.data.several ? [choice("Run", sides, "side")] : []),
        choice("Folded by", this.side.trees.map((tree) => tree.title), "tree"),
        ...(several && this.tree.key === "cells" ? [choice("Compared with", ["nothing", ...sides], "other")] : []), search, button("Show all", () => this.zoom(0)),
        button("Go to the row", () => this.follow()), this.legend());
    }

    legend() {
      const used = new Set(this.tree.frame.map((frame) => this.side.frames[frame]));
      const line = Object.assign(document.createElement("p"), { className: "note" });
      line.style.cssText = "flex-basis: 100%; margin: 0";
      const { slower, faster, soft } = this.theme.colours;
      const entries = this.other ? [["more than in", slower], ["less than in", faster], ["not in", soft]].map(([how, of]) => [`${how} ${this.other.name}`, of])
        : LEGEND.filter(([, frames]) => frames.some((frame) => used.has(frame))).map(([name, [frame]]) => [name, this.colour(frame)]);
      for (const [name, colour] of entries) {
        const [entry, swatch] = [document.createElement("span"), document.createElement("i")];
        swatch.style.cssText = "display: inline-block; width: 0.9em; height: 0.9em; margin-right: 0.35em; opacity: 0.6";
        swatch.style.background = colour;
        entry.style.cssText = "display: inline-block; margin-right: 1em";
        entry.append(swatch, name);
        line.append(entry);
      }
      return line;
    }

    // Goes to the table row of the chosen frame, or of the innermost frame around it that has one.
    follow() {
      const node = this.state.chosen;
      const outward = [node, ...above(this.tree, node).reverse()];
      const row = outward.find((one) => this.rows(one).some(kernelscope.goTo));
      const missing = row === undefined ? `${this.name(node)}: no table of this page has a row for it` : `the row of ${this.name(row)}`;
      kernelscope.say(this.element, row === node ? this.about(node).join(", ") : missing);
    }

    // The keys of a frame's rows, most specific first.
    rows(node) {
      const [kind, name] = [this.frame(node), this.name(node)];
      if (kind === "line") return [{ line: name.slice(0, name.indexOf(":")) }];
      if (!["kernel", "operator", "layer", "phase", "range", "cause"].includes(kind)) return [];
      const around = Object.fromEntries(above(this.tree, node).map((outer) => [this.frame(outer), this.name(outer)])
        .filter(([frame]) => frame === "layer" || frame === "phase"));
      const own = kind === "cause" ? [{ kind: name }, { cause: name.replace(/^\(host: (.*)\)$/, "$1") }] : [{ [kind]: name }];
      return own.flatMap((keys) => [{ ...around, ...keys }, keys]).flatMap((keys) => [{ ...keys, side: this.side.name }, keys]);
    }

    choose(change) {
      // the same folding, if the other run has it
      const key = this.tree.key;
      Object.assign(this.state, change, { root: 0, chosen: 0 });
      if ("side" in change) {
        this.state.tree = Math.max(0, this.data.sides[change.side].trees.findIndex((tree) => tree.key === key));
      }
      this.show();
      this.tools();
      this.draw();
      this.said();
    }

    listen() {
      this.element.onkeydown = (event) => {
        const { tree, state } = this;
        const beside = tree.parent[state.chosen] < 0 ? [0] : children(tree, tree.parent[state.chosen]);
        const at = beside.indexOf(state.chosen);
        const keys = {
          ArrowUp: () => this.point(tree.parent[state.chosen]),
          ArrowDown: () => this.point(children(tree, state.chosen)[0]),
          ArrowLeft: () => this.point(beside[at - 1]),
          ArrowRight: () => this.point(beside[at + 1]),
          Enter: () => this.zoom(state.chosen),
          "+": () => this.zoom(state.chosen),
          "-": () => this.zoom(Math.max(0, tree.parent[state.root])),
          Home: () => this.zoom(0),
          Escape: () => this.zoom(0),
          "/": () => this.input.focus(),
          g: () => this.follow(),
        };
        if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        keys[event.key]();
      };
      this.element.onresize = () => this.draw(); // replaces the handler of the previous view, which had other colours
    }

    point(node) {
      if (node === undefined || node < 0) return;
      this.state.chosen = node;
      const { tree, state } = this;
      if (!this.visible(node)) state.root = tree.parent[node] < 0 ? 0 : tree.parent[node];
      this.draw();
      this.said(this.about(node).join(", "));
    }

    visible(node) {
      return this.boxes.some((box) => box.node === node);
    }

    zoom(node) {
      Object.assign(this.state, { root: node, chosen: node });
      this.draw();
      this.said(this.about(node).join(", "));
    }

    search(words) {
      this.state.words = words;
      this.draw();
      this.said();
    }

    // The nodes that match all words, and their total time: nodes inside a match are not added again.
    found() {
      const words = this.state.words.toLowerCase().split(/\s+/).filter(Boolean);
      if (!words.length) return null;
      const { tree } = this;
      const texts = this.side.names.map((name) => name.toLowerCase());
      const hits = new Set();
      let [total, until] = [0, -1];
      tree.name.forEach((name, node) => {
        if (!node || !words.every((word) => texts[name].includes(word))) return;
        hits.add(node);
        if (until >= 0 && tree.depth[node] > tree.depth[until] && above(tree, node).includes(until)) return;
        until = node;
        total += tree.total_ns[node];
      });
      return { hits, total };
    }

    said(text) {
      const { tree, matching } = this;
      const time = matching && `${duration(matching.total / tree.per)}, ${percent(matching.total / tree.total_ns[0])} of ${tree.what}`;
      const frames = matching?.hits.size === 1 ? "1 frame matches" : `${matching?.hits.size} frames match`;
      const found = !matching ? "" : matching.hits.size ? `${frames}: ${time}` : "no frame matches";
      kernelscope.say(this.element, text ?? found);
    }

    // The description of a frame.
    about(node) {
      const { tree } = this;
      const [total, whole] = [tree.total_ns[node], tree.total_ns[0]];
      const own = total - tree.inside[node];
      const lines = [`${this.name(node)}${node ? ` (${this.frame(node)})` : ""}`];
      lines.push(`${this.time(node)}${this.side.steps ? " per step" : ""}, ${percent(total / whole)} of ${tree.what}`);
      if (this.other) lines.push(...this.difference(node));
      if (own && own !== total) lines.push(`${duration(own / tree.per)} of it not in the frames below`);
      if (tree.count[node]) lines.push(`${tree.count[node].toLocaleString("en")} times${this.side.steps ? ` in ${this.side.steps} steps` : ""}`);
      return lines;
    }

    difference(node) {
      const [more, absent, { name }] = [this.more(node), this.absent(node), this.other];
      return [
        this.known(node) ? `${duration(Math.abs(more))} ${more < 0 ? "less" : "more"} than in ${name}, in recorded steps` : `not in ${name}`,
        ...(absent ? [`${duration(absent)} of ${name} is in frames that this run lacks`] : []),
      ];
    }

    // The boxes to draw, {node, x, y, width}: the frames around the root, which fill the width, and everything below it.
    layout(width) {
      const { tree } = this;
      const { root } = this.state;
      const outer = above(tree, root);
      const boxes = outer.map((node, row) => ({ node, x: 0, y: row, width }));
      const scale = width / tree.total_ns[root];
      for (let node = root; node < tree.depth.length && (node === root || tree.depth[node] > tree.depth[root]); node++) {
        const [x, wide] = [(tree.from[node] - tree.from[root]) * scale, tree.total_ns[node] * scale];
        if (wide >= LEAST && tree.depth[node] < MOST_ROWS + outer.length) boxes.push({ node, x, y: tree.depth[node], width: wide });
      }
      return boxes;
    }

    colour(frame) {
      const { series, soft } = this.theme.colours;
      const place = LEGEND.find(([, frames]) => frames.includes(frame))[2];
      return place === null ? soft : series[place];
    }

    // A frame's colour and its strength, 0 to 1: with another run, the difference as a share of the longer one.
    shade(node) {
      if (!this.other) return { colour: this.colour(this.frame(node)), strength: 1 };
      const { slower, faster, soft } = this.theme.colours;
      if (!this.known(node)) return { colour: soft, strength: 0.5 };
      const more = this.more(node);
      const longer = this.tree.total_ns[node] / this.tree.per + Math.max(0, -more);
      return { colour: more > 0 ? slower : faster, strength: Math.min(1, 0.1 + Math.abs(more) / longer) };
    }

    number(node) {
      if (!this.other || !this.known(node)) return this.time(node);
      const more = this.more(node);
      return `${more < 0 ? "\u2212" : "+"}${duration(Math.abs(more))}`;
    }

    box(box) {
      const { colours } = this.theme;
      const [left, top] = [box.x, box.y * ROW];
      const chosen = box.node === this.state.chosen;
      const hit = this.matching?.hits.has(box.node);
      const outer = this.tree.depth[box.node] < this.tree.depth[this.state.root];
      const { colour, strength } = this.shade(box.node);
      const opacity = strength * (this.matching ? (hit ? 0.45 : 0.1) : outer ? 0.22 : 0.45);
      const edge = chosen ? colours.ink : hit ? colours.slower : colours.page;
      const shape = { x: left + 0.5, y: top + 0.5, width: Math.max(box.width - 1, 0.4), height: ROW - 2 };
      const drawn = [{ type: "rect", shape, style: { fill: colour, opacity } }];
      if (chosen || hit) drawn.push({ type: "rect", shape, style: { fill: "none", stroke: edge, lineWidth: chosen ? 2 : 1 }, silent: true });
      if (box.width > 30) {
        const text = box.width > 130 ? `${this.name(box.node)}  ${this.number(box.node)}` : this.name(box.node);
        const style = {
          text, x: left + 5, y: top + ROW / 2, fill: colours.ink, verticalAlign: "middle",
          font: `12px ${colours.font}`, width: box.width - 9, overflow: "truncate", ellipsis: "…",
        };
        drawn.push({ type: "text", style, silent: true });
      }
      return { type: "group", children: drawn };
    }

    draw() {
      this.matching = this.found();
      const width = this.element.clientWidth;
      const boxes = this.layout(width);
      this.boxes = boxes;
      const rows = boxes.reduce((most, box) => Math.max(most, box.y), 0) + 1;
      this.element.style.height = `${Math.max(rows * ROW + 2, 120)}px`;
      const chart = echarts.getInstanceByDom(this.element) ?? this.made();
      chart.setOption({
        tooltip: { trigger: "item", formatter: ({ dataIndex }) => kernelscope.broken(this.element, this.about(boxes[dataIndex].node)) },
        series: [{
          type: "custom", coordinateSystem: "none", data: boxes.map((_, place) => place),
          renderItem: (_, api) => this.box(boxes[api.value(0)]),
        }],
      }, { notMerge: true });
      chart.resize(); // at the end: earlier boxes have no place in another tree
    }

    made() {
      const chart = kernelscope.echart(this.element, this.theme);
      chart.on("click", ({ dataIndex }) => this.zoom(this.boxes[dataIndex].node));
      return chart;
    }
  }

  kernelscope.charts.flame = (element, data, theme) => new View(element, data, theme);
})();
