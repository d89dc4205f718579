// One cursor for all figures: the same step in each. Without this script the page shows everything
// but the readout; the numbers are in the tables.
"use strict";
(() => {
  // A browser prints a closed part without its content; figures keep theirs closed (page.css).
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open], figure details)")];
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });

  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [380, 214, 44, 8, 14, 24];
  const shown = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
  const number = (value) =>
    value && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e9) ? value.toExponential(2) : shown.format(value);

  const plots = [...document.querySelectorAll(".plot")].map((plot) => ({
    plot,
    data: JSON.parse(document.getElementById(plot.id + "-data").textContent),
    readout: document.getElementById(plot.id + "-readout"),
    cursor: plot.querySelector(".cursor"),
  }));
  if (!plots.length) return;

  const left = (data, step) => LEFT + ((step - data.x[0]) / (data.x[1] - data.x[0])) * (WIDTH - LEFT - RIGHT);
  const top = (data, value) => {
    const scaled = (each) => (data.log ? Math.log10(Math.max(each, 1e-300)) : each);
    const share = (scaled(value) - scaled(data.y[0])) / (scaled(data.y[1]) - scaled(data.y[0]));
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
  };
  // The point of a series nearest to a step; steps ascend.
  const nearest = (steps, step) => {
    let [low, high] = [0, steps.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle;
      else high = middle;
    }
    return Math.abs(steps[low] - step) <= Math.abs(steps[high] - step) ? low : high;
  };
  const element = (name, attributes, parent) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
  };

  const describe = (data, step) => {
    const parts = data.series.map((each) => {
      const at = nearest(each.steps, step);
      const range = each.lows ? ` (${number(each.lows[at])} to ${number(each.highs[at])})` : "";
      const own = each.steps[at] === step ? "" : ` at ${number(each.steps[at])}`;
      return `${each.label} ${number(each.means[at])}${range}${own}`;
    });
    return `step ${number(step)} · ${parts.join(" · ")}`;
  };
  const show = (step) => {
    for (const { plot, data, readout, cursor } of plots) {
      cursor.replaceChildren();
      const x = left(data, Math.min(Math.max(step, data.x[0]), data.x[1]));
      element("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }, cursor);
      for (const each of data.series) {
        const at = nearest(each.steps, step);
        const place = { cx: left(data, each.steps[at]), cy: top(data, each.means[at]), r: 3.5, class: each.style };
        element("circle", place, cursor);
      }
      readout.textContent = describe(data, step);
      plot.setAttribute("aria-valuenow", step);
      plot.setAttribute("aria-valuetext", readout.textContent);
    }
  };
  const clear = () => {
    for (const { cursor, readout } of plots) {
      cursor.replaceChildren();
      readout.textContent = "";
    }
  };

  for (const { plot, data } of plots) {
    const steps = data.series.reduce((most, each) => (each.steps.length > most.length ? each.steps : most), []);
    plot.tabIndex = 0;
    plot.setAttribute("role", "slider");
    plot.setAttribute("aria-label", `${plot.dataset.title}: step`);
    plot.setAttribute("aria-valuemin", data.x[0]);
    plot.setAttribute("aria-valuemax", data.x[1]);
    plot.setAttribute("aria-valuenow", data.x[1]);
    let at = steps.length - 1;
    const move = (to) => show(steps[(at = Math.min(Math.max(to, 0), steps.length - 1))]);
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
      move(nearest(steps, data.x[0] + share * (data.x[1] - data.x[0])));
    });
    plot.addEventListener("pointerleave", clear);
    plot.addEventListener("focus", () => plot.matches(":focus-visible") && move(at));
    plot.addEventListener("blur", clear);
    plot.addEventListener("keydown", (event) => {
      const page = Math.max(1, Math.round(steps.length / 10));
      const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -page, PageUp: page };
      if (event.key === "Home") move(0);
      else if (event.key === "End") move(steps.length - 1);
      else if (event.key in moves) move(at + moves[event.key]);
      else if (event.key === "Escape") clear();
      else return;
      event.preventDefault();
    });
  }
})();
