"use strict";
// Points of a roofline on two logarithmic axes. data: {several, sides: [{name, points: [{x, y, size, phase, about, row, keys}], line: {name,
// points}}]}, most important points first.
(() => {
  const SYMBOLS = { forward: "circle", backward: "rect", optimizer: "triangle", data: "diamond", other: "roundRect" };
  const states = new WeakMap();
  // ECharts handles every turn of the wheel, whatever its options; without a key it should scroll the page
  const scrollsPage = (event) => { if (!event.ctrlKey) event.stopPropagation(); };
  const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });

  const options = (side, state, element, { colours }) => {
    const axis = (name, nameGap) => ({
      type: "log", name, nameLocation: "middle", nameGap, axisLabel: { color: colours.ink, formatter: number, hideOverlap: true },
      splitLine: { lineStyle: { color: colours.line } }, minorTick: { show: true },
    });
    const phases = Object.keys(SYMBOLS).filter((phase) => side.points.some((point) => point.phase === phase));
    const low = Math.min(...side.points.map((point) => point.y), ...side.line.points.map((point) => point[1]));
    const marks = phases.map((phase) => ({
      type: "scatter", name: phase, symbol: SYMBOLS[phase], itemStyle: { color: colours.phases[phase], opacity: 0.7 },
      emphasis: { itemStyle: { opacity: 1, borderColor: colours.ink, borderWidth: 2 } },
      data: side.points.map((point, place) => ({ point, place })).filter(({ point }) => point.phase === phase).map(({ point, place }) => ({
        value: [point.x, point.y, place], symbolSize: point.size,
        itemStyle: place === state.chosen ? { opacity: 1, borderColor: colours.ink, borderWidth: 2 } : {},
      })),
    }));
    const roof = {
      type: "line", name: side.line.name, data: side.line.points, symbol: "none", silent: true, z: 1,
      lineStyle: { color: colours.ink, width: 1.5 }, itemStyle: { color: colours.ink },
    };
    return {
      legend: { type: "scroll", top: 0, left: 0, right: 0, textStyle: { color: colours.ink, width: element.clientWidth - 60, overflow: "truncate" } },
      grid: { top: 56, bottom: 52, left: 70, right: 18 },
      xAxis: { ...axis("operations per byte (algorithmic)", 30), min: "dataMin", max: "dataMax" },
      yAxis: { ...axis("Gflop/s", 52), min: low / 2 },
      tooltip: { trigger: "item", formatter: ({ value }) => kernelscope.broken(element, side.points[value[2]]?.about ?? []) },
      dataZoom: [{ type: "inside", xAxisIndex: 0, zoomOnMouseWheel: "ctrl", filterMode: "none" },
        { type: "inside", yAxisIndex: 0, zoomOnMouseWheel: "ctrl", filterMode: "none" }],
      series: side.line.points.length ? [...marks, roof] : marks,
    };
  };

  // Goes to the row of a point: in the roofline's own table if the page has it, else to any row of its kernel.
  const follow = (element, data, state, place) => {
    const side = data.sides[state.side];
    const { row, keys, about } = side.points[place];
    if (!data.several && document.getElementById(row)) {
      kernelscope.follow(row);
      return;
    }
    const tried = [{ ...keys, side: side.name }, { kernel: keys.kernel, side: side.name }, keys, { kernel: keys.kernel }];
    if (!tried.some(kernelscope.goTo)) kernelscope.say(element, `${about[0]}: no table of this page has a row for it`);
  };

  const tools = (element, data, state, again) => {
    if (!data.several) return;
    const [box, select] = [document.createElement("label"), document.createElement("select")];
    data.sides.forEach((side, at) => select.append(new Option(side.name, at, false, at === state.side)));
    select.addEventListener("change", () => { Object.assign(state, { side: Number(select.value), chosen: -1 }); again(); });
    box.append("Run ", select);
    kernelscope.tools(element).replaceChildren(box);
  };

  kernelscope.charts.scatter = (element, data, theme) => {
    const state = states.get(element) ?? { side: 0, chosen: -1 };
    states.set(element, state);
    const draw = () => {
      const side = data.sides[state.side];
      element.style.height = `${Math.min(460, Math.max(320, element.clientWidth * 0.6))}px`;
      const made = echarts.getInstanceByDom(element);
      const chart = made ?? kernelscope.echart(element, theme);
      chart.resize();
      chart.setOption(options(side, state, element, theme), { notMerge: true });
      if (!made) chart.on("click", ({ value }) => follow(element, data, state, value[2]));
      const choose = (place) => {
        state.chosen = Math.min(Math.max(place, 0), side.points.length - 1);
        draw();
        kernelscope.say(element, side.points[state.chosen].about.join(", "));
      };
      const keys = {
        ArrowRight: () => choose(state.chosen + 1), ArrowDown: () => choose(state.chosen + 1),
        ArrowLeft: () => choose(state.chosen - 1), ArrowUp: () => choose(state.chosen - 1), Home: () => choose(0),
        Enter: () => state.chosen >= 0 && follow(element, data, state, state.chosen),
      };
      element.onkeydown = (event) => {
        if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        keys[event.key]();
      };
    };
    tools(element, data, state, draw);
    draw();
    element.onresize = draw;
    element.addEventListener("wheel", scrollsPage, { capture: true, passive: true }); // once, even if it is drawn again
    element.style.touchAction = "pan-y";
  };
})();
