"use strict";
// Lines over time or over a number, one panel per chart. data: {stacked, charts: [{title, about, x: {name, unit, log, ticks}, y: {name,
// unit, log}, steps, series: [{name, x, y, low, high}], spans: [[from, to]]}]}. Stacked charts are all shown, others one at a time;
// steps: a value holds until the next one.
(() => {
  const PANEL = 250; // px of a chart, its title and its axis included
  const SYMBOLS = ["circle", "rect", "triangle", "diamond", "roundRect", "pin", "arrow"];
  const DASHES = ["solid", [6, 3], [2, 2], [9, 3, 2, 3]];
  const states = new WeakMap();
  // ECharts handles every turn of the wheel, whatever its options; without a key it should scroll the page
  const scrollsPage = (event) => { if (!event.ctrlKey) event.stopPropagation(); };

  const number = (value, digits = 4) => value.toLocaleString("en", { maximumSignificantDigits: digits });
  const scaled = (sizes) => (value) => {
    if (!value) return "0";
    const [size, unit] = sizes.find(([size]) => Math.abs(value) >= size) ?? sizes.at(-1);
    return `${number(value / size)} ${unit}`;
  };
  const FORMS = {
    ns: scaled([[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]),
    B: scaled([[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]),
    W: (value) => `${number(value)} W`,
    share: (value) => `${number(100 * value, 3)}%`,
  };
  const form = (axis) => FORMS[axis.unit] ?? ((value) => number(value));

  const axis = (part, place, colours, more) => ({
    type: part.log ? "log" : "value", logBase: 2, gridIndex: place, name: part.name, nameLocation: "middle", nameGap: 28,
    axisLabel: { color: colours.ink, formatter: form(part), hideOverlap: true }, splitNumber: 5, ...more,
  });

  // An axis from the first to the last of its ticks, with room on both sides.
  const ticked = ({ ticks, log }) => {
    if (!ticks) return { min: log ? "dataMin" : 0, max: "dataMax" };
    const [first, last] = [ticks[0], ticks.at(-1)];
    if (log) return { min: first / 1.3, max: last * 1.3, axisTick: { customValues: ticks } };
    const room = (last - first || 1) * 0.15;
    return { min: first - room, max: last + room, axisTick: { customValues: ticks } };
  };

  // Intervals of a series as vertical lines with ends, `aside` px beside their places.
  const intervals = (line, place, colour, aside) => ({
    type: "custom", name: line.name, xAxisIndex: place, yAxisIndex: place, silent: true, z: 1, encode: { x: 0, y: [1, 2] },
    data: line.x.map((x, at) => [x, line.low[at], line.high[at]]).filter(([, low, high]) => low !== null && high !== null),
    renderItem: (_, api) => {
      const [top, bottom] = [2, 1].map((dimension) => api.coord([api.value(0), api.value(dimension)])).map(([x, y]) => [x + aside, y]);
      const across = ([x, y]) => ({ type: "line", shape: { x1: x - 4, y1: y, x2: x + 4, y2: y }, style: { stroke: colour } });
      const upright = { type: "line", shape: { x1: top[0], y1: top[1], x2: bottom[0], y2: bottom[1] }, style: { stroke: colour } };
      return { type: "group", children: [upright, across(top), across(bottom)] };
    },
  });

  const lines = (chart, place, { colours }) => chart.series.flatMap((line, at) => {
    const colour = colours.series[at % colours.series.length];
    const aside = line.low ? 6 * (at - (chart.series.length - 1) / 2) : 0; // so that intervals at one place do not overlap
    const drawn = {
      type: "line", name: line.name, xAxisIndex: place, yAxisIndex: place, data: line.x.map((x, point) => [x, line.y[point]]),
      symbol: SYMBOLS[at % SYMBOLS.length], symbolOffset: [aside, 0], symbolSize: line.x.length > 60 ? 3 : 7, showSymbol: line.x.length <= 60,
      lineStyle: { color: colour, width: 1.5, type: DASHES[Math.floor(at / 2) % DASHES.length] }, itemStyle: { color: colour },
      step: chart.steps ? "end" : false,
      markArea: at || !chart.spans?.length ? undefined : {
        silent: true, itemStyle: { color: colours.soft, opacity: 0.13 }, data: chart.spans.map(([from, to]) => [{ xAxis: from }, { xAxis: to }]),
      },
    };
    return line.low ? [drawn, intervals(line, place, colour, aside)] : [drawn];
  });

  // The text for one place of a chart: every series with its value and interval there.
  const said = (chart, points) => {
    const [first] = points;
    const [x, y] = [form(chart.x), form(chart.y)];
    const rows = points.filter((point) => point.seriesType === "line").map((point) => {
      const line = chart.series.find((one) => one.name === point.seriesName);
      const [low, high] = [line.low?.[point.dataIndex], line.high?.[point.dataIndex]];
      const range = low == null || high == null ? "" : ` (95% interval ${y(low)} to ${y(high)})`;
      const value = point.value[1];
      return `${point.seriesName}: ${value == null ? "—" : y(value)}${range}`;
    });
    return [`${chart.x.name ? `${chart.x.name}: ` : ""}${x(first.value[0])}`, ...rows];
  };

  const options = (charts, element, theme) => {
    const { colours } = theme;
    const narrow = element.clientWidth < 600;
    const every = charts.map((chart, place) => ({ chart, place, top: place * PANEL }));
    const text = { fontSize: 13, lineHeight: 17, color: colours.ink, width: element.clientWidth - 8, overflow: "truncate" };
    return {
      title: every.map(({ chart, top }) => ({
        text: chart.title, subtext: chart.about, top, left: 0, itemGap: 3, padding: [4, 0], textStyle: text,
        subtextStyle: { ...text, fontSize: 12, color: colours.soft },
      })),
      legend: every.map(({ chart, top }) => ({
        type: "scroll", top: top + 38, left: 0, right: 0, data: chart.series.map((line) => line.name),
        textStyle: { color: colours.ink, width: element.clientWidth - 120, overflow: "truncate" }, pageIconColor: colours.link,
      })),
      grid: every.map(({ top }) => ({ top: top + 72, height: PANEL - 122, left: narrow ? 62 : 78, right: 16 })),
      xAxis: every.map(({ chart, place }) => axis(chart.x, place, colours, {
        ...ticked(chart.x), splitLine: { show: false },
        axisLabel: { color: colours.ink, formatter: form(chart.x), hideOverlap: true, ...(chart.x.ticks ? { customValues: chart.x.ticks } : {}) },
      })),
      yAxis: every.map(({ chart, place }) => axis(chart.y, place, colours, { nameGap: narrow ? 48 : 62, ...(chart.y.log ? {} : { min: 0 }) })),
      tooltip: { trigger: "axis", formatter: (points) => kernelscope.broken(element, said(every[points[0].axisIndex].chart, points)) },
      dataZoom: every.map(({ place }) => ({ type: "inside", xAxisIndex: place, zoomOnMouseWheel: "ctrl", filterMode: "none" })),
      series: every.flatMap(({ chart, place }) => lines(chart, place, theme)),
    };
  };

  // The visible part of the axis, in percent, after a key moved or widened it.
  const KEYS = {
    "+": ([from, to]) => [from + (to - from) / 4, to - (to - from) / 4],
    "-": ([from, to]) => [from - (to - from) / 2, to + (to - from) / 2],
    ArrowLeft: ([from, to]) => [from - (to - from) / 8, to - (to - from) / 8],
    ArrowRight: ([from, to]) => [from + (to - from) / 8, to + (to - from) / 8],
    Home: () => [0, 100],
  };
  const within = ([from, to]) => {
    const wide = Math.min(to - from, 100);
    const left = Math.min(Math.max(from, 0), 100 - wide);
    return [left, left + wide];
  };

  const tools = (element, data, state, again) => {
    if (data.stacked || data.charts.length < 2) return;
    const [box, select] = [document.createElement("label"), document.createElement("select")];
    data.charts.forEach((chart, at) => select.append(new Option(chart.title, at, false, at === state.chart)));
    select.style.maxWidth = "100%"; // titles of panels are long
    select.addEventListener("change", () => { state.chart = Number(select.value); again(); });
    box.append("Panel ", select);
    kernelscope.tools(element).replaceChildren(box);
  };

  kernelscope.charts.series = (element, data, theme) => {
    const state = states.get(element) ?? { chart: 0, shown: [0, 100] };
    states.set(element, state);
    const draw = () => {
      const charts = data.stacked ? data.charts : [data.charts[state.chart]];
      element.style.height = `${charts.length * PANEL}px`;
      const chart = echarts.getInstanceByDom(element) ?? kernelscope.echart(element, theme);
      chart.resize();
      chart.setOption(options(charts, element, theme), { notMerge: true });
      const zoom = (shown) => charts.forEach((_, dataZoomIndex) => chart.dispatchAction({
        type: "dataZoom", dataZoomIndex, start: shown[0], end: shown[1],
      }));
      zoom(state.shown);
      element.onkeydown = (event) => {
        if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        state.shown = within(KEYS[event.key](state.shown));
        zoom(state.shown);
        kernelscope.say(element, `${Math.round(state.shown[0])}% to ${Math.round(state.shown[1])}% of the axis is shown`);
      };
    };
    tools(element, data, state, draw);
    draw();
    element.onresize = draw;
    element.addEventListener("wheel", scrollsPage, { capture: true, passive: true }); // once, even if it is drawn again
    element.style.touchAction = "pan-y";
  };
})();
