"use strict";
// What interactive parts share. <kind>.js registers kernelscope.charts[kind] = (element, data, theme) => {...}; it is called once the
// page is there, and again, with the element emptied, when the page's colours change and around printing. What must outlive that
// (zoom, words searched for) the script keeps in a WeakMap by element.
window.kernelscope = { charts: {} };
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const NAMES = ["page", "ink", "soft", "line", "shade", "link", "bar", "warn", "bad", "slower", "faster"];
  const PHASES = ["forward", "backward", "optimizer", "data", "other"];
  const parts = [];

  // A phone shows the answers; what is drawn opens at a touch.
  if (innerWidth < 600) for (const fold of document.querySelectorAll(".interactive > details.fold, #why > details.fold")) fold.open = false;

  // {dark, colours: {page, ink, soft, ..., phases: {forward, ...}, series: [seven colours that people tell apart]}}
  const theme = () => {
    const style = getComputedStyle(root);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = Object.fromEntries(NAMES.map((name) => [name, value(name)]));
    colours.phases = Object.fromEntries(PHASES.map((name) => [name, value(`phase-${name}`)]));
    colours.series = [1, 2, 3, 4, 5, 6, 7].map((number) => value(`series-${number}`));
    colours.font = value("font");
    return { dark: dark.matches && !root.classList.contains("light"), colours };
  };

  // An ECharts instance in the page's colours: no animation, and tooltips drawn on the canvas, so that no name becomes HTML.
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

  // Lines of a tooltip, broken where they would be wider than the part: a canvas breaks none.
  kernelscope.broken = (element, lines) => {
    const most = Math.max(20, Math.min(90, Math.floor(element.clientWidth / 9)));
    const part = new RegExp(`(.{1,${most}})(?:\\s+|$)|(.{${most}})`, "gu"); // at a space where there is one
    return lines.map((line) => line.replace(part, "$1$2\n").trimEnd()).join("\n");
  };

  // The element before a part for its buttons and boxes: inside the part itself, which is an image to screen readers, none are found.
  kernelscope.tools = (element) => document.getElementById(`${element.id}-tools`);

  // Says in words what is pointed at or found: shown below the part, and read out.
  kernelscope.say = (element, text) => { document.getElementById(`${element.id}-said`).textContent = text; };

  // Goes to a row of a table; tables.js shows it where it was filtered away.
  kernelscope.follow = (id) => {
    if (location.hash === `#${id}`) history.replaceState(null, "", location.pathname + location.search);
    location.hash = id;
  };

  // Goes to the first row of a table that has all these keys, as {kernel: name} or {layer, phase}; false where there is none.
  kernelscope.goTo = (keys) => {
    const wanted = Object.entries(keys).map(([name, value]) => `[data-key-${name}="${CSS.escape(value)}"]`);
    const selector = `tbody tr${wanted.join("")}`;
    // accounts of explanations are of two sides: the tables of what was measured come before them
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
    if (width) tried(part); // what is folded away is drawn when it is opened
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
