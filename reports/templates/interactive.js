"use strict";
// Common code of interactive parts. <kind>.js registers kernelscope.charts[kind] = (element, data, theme) => {...}, which is called
// when the page is ready, and again, with the element emptied, when the page's colours change and around printing. Scripts keep
// state that must survive that (zoom, search words) in a WeakMap by element.
window.kernelscope = { charts: {} };
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const NAMES = ["page", "ink", "soft", "line", "shade", "link", "bar", "warn", "bad", "slower", "faster"];
  const PHASES = ["forward", "backward", "optimizer", "data", "other"];
  const parts = [];

  // A phone shows the answers first; charts open with a touch.
  if (innerWidth < 600) for (const fold of document.querySelectorAll(".interactive > details.fold, #why > details.fold")) fold.open = false;

  // {dark, colours: {page, ink, soft, ..., phases: {forward, ...}, series: [seven distinct colours]}}
  const theme = () => {
    const style = getComputedStyle(root);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = Object.fromEntries(NAMES.map((name) => [name, value(name)]));
    colours.phases = Object.fromEntries(PHASES.map((name) => [name, value(`phase-${name}`)]));
    colours.series = [1, 2, 3, 4, 5, 6, 7].map((number) => value(`series-${number}`));
    colours.font = value("font");
    return { dark: dark.matches && !root.classList.contains("light"), colours };
  };

  // An element with properties and children.
  kernelscope.made = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // An ECharts instance in the page's colours, without animation and with tooltips on the canvas, so that no name becomes HTML.
  kernelscope.echart = (element, { dark, colours }) => {
    const axis = {
      axisLine: { lineStyle: { color: colours.soft } }, axisTick: { lineStyle: { color: colours.soft } },
      axisLabel: { color: colours.ink }, nameTextStyle: { color: colours.ink }, splitLine: { lineStyle: { color: colours.line } },
    };
    return echarts.init(element, {
      animation: false, darkMode: dark, color: colours.series, backgroundColor: "transparent",
      textStyle: { fontFamily: colours.font, color: colours.ink }, legend: { textStyle: { color: colours.ink } },
      valueAxis: axis, logAxis: axis, categoryAxis: axis, timeAxis: axis,
      tooltip: {
        renderMode: "richText", confine: true, backgroundColor: colours.page, borderColor: colours.soft,
        textStyle: { color: colours.ink, fontSize: 13 },
      },
    }, { renderer: "canvas" });
  };

  // Lines of a tooltip, wrapped at the width of the part, as a canvas does not wrap text.
  kernelscope.broken = (element, lines) => {
    const most = Math.max(20, Math.min(90, Math.floor(element.clientWidth / 9)));
    const part = new RegExp(`(.{1,${most}})(?:\\s+|$)|(.{${most}})`, "gu"); // at a space if there is one
    return lines.map((line) => line.replace(part, "$1$2\n").trimEnd()).join("\n");
  };

  // The element before a part for its buttons and boxes: inside the part, which is an image to screen readers, they would be hidden.
  kernelscope.tools = (element) => document.getElementById(`${element.id}-tools`);

  // Says in words what is selected or found: shown below the part, and read aloud.
  kernelscope.say = (element, text) => { document.getElementById(`${element.id}-said`).textContent = text; };

  // Goes to a row of a table; tables.js shows it if it was filtered out.
  kernelscope.follow = (id) => {
    if (location.hash === `#${id}`) history.replaceState(null, "", location.pathname + location.search);
    location.hash = id;
  };

  // Goes to the first row of a table that has all these keys, as {kernel: name} or {layer, phase}; false if there is none.
  kernelscope.goTo = (keys) => {
    const wanted = Object.entries(keys).map(([name, value]) => `[data-key-${name}="${CSS.escape(value)}"]`);
    const selector = `tbody tr${wanted.join("")}`;
    // accounts of explanations have two sides: prefer the tables of measurements
    const row = document.querySelector(`.view:not([id$="-account"]) ${selector}`) ?? document.querySelector(selector);
    if (!row) return false;
    row.id ||= `row-${[...document.querySelectorAll("tr")].indexOf(row)}`;
    kernelscope.follow(row.id);
    return true;
  };

  const draw = ({ element, data }) => {
    echarts.getInstanceByDom(element)?.dispose();
    element.replaceChildren();
    kernelscope.charts[element.dataset.chart](element, data, theme());
    echarts.getInstanceByDom(element)?.getZr().flush();
    element.dataset.drawn = "";
  };

  const failed = (element, error) => {
    element.textContent = `could not be drawn (${error}). ${element.getAttribute("aria-label")}`;
    console.error(error);
  };

  const tried = (part) => {
    try {
      draw(part);
    } catch (error) {
      failed(part.element, error);
    }
  };

  const start = async (element) => {
    try {
      parts.push({ element, data: JSON.parse(await unpacked(document.getElementById(`${element.id}-data`).textContent)) });
    } catch (error) {
      failed(element, error);
      return;
    }
    const part = parts.at(-1);
    let width = element.clientWidth;
    if (width) tried(part); // folded parts are drawn when they are opened
    new ResizeObserver(() => {
      if (element.clientWidth === width) return;
      width = element.clientWidth;
      if (width && !("drawn" in element.dataset)) return tried(part);
      if (width) echarts.getInstanceByDom(element)?.resize();
      element.dispatchEvent(new Event("resize"));
    }).observe(element);
  };

  const again = () => parts.filter(({ element }) => "drawn" in element.dataset).forEach(tried);
  const paper = (light) => { root.classList.toggle("light", light); again(); };

  addEventListener("DOMContentLoaded", async () => {
    await Promise.all([...document.querySelectorAll("[data-chart]")].map(start));
    dark.addEventListener("change", again);
    addEventListener("beforeprint", () => paper(true));
    addEventListener("afterprint", () => paper(false));
  });
})();
