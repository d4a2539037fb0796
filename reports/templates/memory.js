"use strict";
// Memory in use over time, stacked by kind, and the layers that hold it at the clicked moment. data: {devices: [{name, time_ns,
// kinds: [{name, bytes, before}], layers: the same, spans: [[from, to]]}]}: bytes at each time; before: whether it was allocated
// before the recording.
(() => {
  const HEIGHT = 300; // px
  const MOST = 12; // layers in the list
  const states = new WeakMap(); // {device, at}

  const number = (value, digits = 3) => value.toLocaleString("en", { maximumSignificantDigits: digits });
  const size = (bytes) => {
    const [unit, name] = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]].find(([least]) => Math.abs(bytes) >= least) ?? [1, "B"];
    return `${number(bytes / unit)} ${name}`;
  };
  const time = (ns) => (ns >= 1e9 ? `${number(ns / 1e9, 4)} s` : `${number(ns / 1e6, 4)} ms`);
  const total = (parts, at) => parts.reduce((sum, part) => sum + part.bytes[at], 0);

  const options = (device, { colours }) => ({
    legend: { type: "scroll", top: 0, left: 0, right: 0, textStyle: { color: colours.ink }, pageIconColor: colours.link },
    grid: { top: 34, height: HEIGHT - 70, left: 70, right: 16 },
    xAxis: { type: "value", min: 0, max: "dataMax", splitLine: { show: false }, axisLabel: { color: colours.ink, formatter: time, hideOverlap: true } },
    yAxis: { type: "value", min: 0, axisLabel: { color: colours.ink, formatter: size } },
    tooltip: { trigger: "axis", formatter: ([{ dataIndex }]) => `${time(device.time_ns[dataIndex])}: ${size(total(device.kinds, dataIndex))}` },
    dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl", filterMode: "none" }],
    series: device.kinds.map((kind, place) => {
      const colour = kind.before ? colours.soft : colours.series[place % colours.series.length];
      return {
        type: "line", name: kind.name, stack: "in use", step: "end", showSymbol: false, lineStyle: { width: 0 }, itemStyle: { color: colour },
        areaStyle: { color: colour, opacity: 0.75 }, data: kind.bytes.map((bytes, at) => [device.time_ns[at], bytes]),
        markArea: place || !device.spans.length ? undefined : {
          silent: true, itemStyle: { color: colours.soft, opacity: 0.1 }, data: device.spans.map(([from, to]) => [{ xAxis: from }, { xAxis: to }]),
        },
      };
    }),
  });

  // The layers that hold the most memory at a moment, as a table below the chart.
  const list = (device, at) => {
    const whole = total(device.layers, at);
    const held = device.layers.map(({ name, bytes }) => [name, bytes[at]]).filter(([, bytes]) => bytes).sort((a, b) => b[1] - a[1]);
    const rest = held.slice(MOST).reduce((sum, [, bytes]) => sum + bytes, 0);
    const rows = rest ? [...held.slice(0, MOST), [`(${held.length - MOST} more)`, rest]] : held;
    const table = document.createElement("table");
    table.createCaption().textContent = `In use at ${time(device.time_ns[at])}, by the layer that allocated it: ${size(whole)}`;
    for (const [name, bytes] of rows) {
      const row = table.insertRow();
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      row.append(head);
      for (const text of [size(bytes), `${((100 * bytes) / whole).toFixed(1)}%`]) {
        const cell = row.insertCell();
        cell.className = "number";
        cell.textContent = text;
      }
    }
    return table;
  };

  // The choice of a device, if there are several, and the place of the list.
  const tools = (element, data, state, again) => {
    const box = kernelscope.tools(element);
    if (data.devices.length < 2 || box.childElementCount) return;
    const [label, select] = [document.createElement("label"), document.createElement("select")];
    data.devices.forEach(({ name }, at) => select.append(new Option(name, at, false, at === state.device)));
    select.addEventListener("change", () => { Object.assign(state, { device: Number(select.value), at: null }); again(); });
    label.append("Of ", select);
    box.append(label);
  };

  const details = (element) => {
    const id = `${element.id}-layers`;
    const known = document.getElementById(id);
    if (known) return known;
    const made = Object.assign(document.createElement("div"), { id, className: "scroll" });
    element.after(made);
    return made;
  };

  kernelscope.charts.memory = (element, data, theme) => {
    const state = states.get(element) ?? { device: 0, at: null };
    states.set(element, state);
    const draw = () => {
      const device = data.devices[state.device];
      const totals = device.time_ns.map((_, at) => total(device.kinds, at));
      element.style.height = `${HEIGHT}px`;
      const chart = echarts.getInstanceByDom(element) ?? kernelscope.echart(element, theme);
      chart.resize();
      chart.setOption(options(device, theme), { notMerge: true });
      const choose = (at) => {
        state.at = Math.max(0, Math.min(at, totals.length - 1));
        details(element).replaceChildren(list(device, state.at));
        const [x, y] = [device.time_ns[state.at], totals[state.at]];
        chart.setOption({ series: [{
          name: device.kinds[0].name,
          markLine: { silent: true, symbol: "none", label: { show: false }, lineStyle: { color: theme.colours.ink }, data: [{ xAxis: x }] },
        }] });
        kernelscope.say(element, `at ${time(x)}: ${size(y)} in use`);
      };
      choose(state.at ?? totals.indexOf(Math.max(...totals)));
      chart.getZr().off("click");
      chart.getZr().on("click", ({ offsetX, offsetY }) => {
        if (!chart.containPixel("grid", [offsetX, offsetY])) return;
        const [x] = chart.convertFromPixel("grid", [offsetX, offsetY]);
        choose(device.time_ns.findLastIndex((one) => one <= x));
      });
      element.onkeydown = (event) => {
        const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        choose(state.at + move);
      };
    };
    tools(element, data, state, draw);
    draw();
    element.onresize = draw;
    element.style.touchAction = "pan-y";
  };
})();
