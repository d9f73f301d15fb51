"use strict";
// Draws a figure as SVG. Data and layout have the names of Plotly's, as far as the pages use them: lines, marks, rows of
// bars, intervals, filled bands, logarithmic axes, axes of words, panels, and parallel coordinates.

const DASHES = { dash: "9 5", dot: "2 4", dashdot: "9 4 2 4" };
const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const FONT_SIZE = 13, TICK = 5, PAD = 8, NEAR = 30;

const pen = document.createElement("canvas").getContext("2d");

function widthOf(text) {
  pen.font = `${FONT_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

const widest = (texts) => Math.max(0, ...texts.map(widthOf));

function add(parent, name, attributes = {}, text = null) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) one.setAttribute(key, value);
  if (text !== null) one.textContent = text;
  parent.append(one);
  return one;
}

function strokeOf(line = {}, width = 2.5) {
  return {
    fill: "none", stroke: line.color, "stroke-width": line.width ?? width, "stroke-dasharray": DASHES[line.dash],
    "stroke-linejoin": "round",
  };
}

// Numbers by formats such as "+.2f", ",", ",.1~f" and "~s"; words as they are.
function format(value, how = "") {
  if (typeof value !== "number") return value ?? "";
  const [, sign, comma, digits, trim, kind] = /^(\+?)(,?)(?:\.(\d+))?(~?)([fs]?)$/.exec(how) ?? [];
  if (kind === "s") {
    const power = value ? Math.max(0, Math.min(3, Math.floor(Math.log10(Math.abs(value)) / 3 + 1e-9))) : 0;
    return `${+(value / 1000 ** power).toPrecision(4)}${["", "k", "M", "G"][power]}`;
  }
  const places = digits === undefined ? { maximumFractionDigits: 6 }
    : { minimumFractionDigits: trim ? 0 : +digits, maximumFractionDigits: +digits };
  const text = Math.abs(value).toLocaleString("en", { useGrouping: Boolean(comma), ...places });
  return `${value < 0 ? "\u2212" : sign ? "+" : ""}${text}`;
}

function steps(low, high, count) {
  const raw = (high - low) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find((one) => one * power >= raw * 0.999) * power;
}

// An axis: where a value lies in pixels, and its ticks. `span` is from the pixel of the lowest value to the highest's.
class Axis {
  constructor(settings, values, span, ends) {
    const words = settings.categoryarray ?? (settings.type === "category" || values.some((one) => typeof one === "string")
      ? [...new Set(values.map(String))] : null);
    Object.assign(this, { settings, words, span, isLog: settings.type === "log" && !words });
    let [low, high] = words ? [-0.5, words.length - 0.5] : settings.range ?? this.reach(values, ends);
    if (settings.autorange === "reversed") [low, high] = [high, low];
    Object.assign(this, { low, high });
  }

  reach(values, { margin, zero }) {
    const known = values.filter((one) => Number.isFinite(one) && !(this.isLog && one <= 0)).map((one) => this.scale(one));
    const hasZero = !this.isLog && (zero || this.settings.rangemode === "tozero");
    let low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!known.length) [low, high] = [0, 1];
    if (hasZero) [low, high] = [Math.min(0, low), Math.max(0, high)];
    if (low === high) [low, high] = [low - 0.5, high + 0.5];
    const more = margin * (high - low); // none where the axis begins or ends with zero
    return [low - (hasZero && low === 0 ? 0 : more), high + (hasZero && high === 0 ? 0 : more)];
  }

  scale(value) {
    return this.words ? this.words.indexOf(String(value)) : this.isLog ? Math.log10(value) : value;
  }

  at(value) {
    return this.span[0] + ((this.scale(value) - this.low) / (this.high - this.low)) * (this.span[1] - this.span[0]);
  }

  // What lies at a pixel, as `range` has it.
  under(pixel) {
    return this.low + ((pixel - this.span[0]) / (this.span[1] - this.span[0])) * (this.high - this.low);
  }

  get ticks() {
    const { tickvals, ticktext, tickformat, dtick, nticks } = this.settings, length = Math.abs(this.span[1] - this.span[0]);
    if (this.words) return this.words.map((one) => [one, one]);
    const [low, high] = [Math.min(this.low, this.high), Math.max(this.low, this.high)];
    if (tickvals) {
      const shown = tickvals.map((one, i) => [one, ticktext?.[i] ?? format(one, tickformat)]);
      return shown.filter(([one]) => this.scale(one) >= low - 1e-9 && this.scale(one) <= high + 1e-9);
    }
    const found = [], count = Math.min(nticks ?? 12, length / (this.isVertical ? 45 : 80));
    const step = this.isLog ? Math.max(1, steps(low, high, count)) : dtick ?? steps(low, high, count);
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
      const value = this.isLog ? 10 ** (i * step) : +(i * step).toPrecision(12);
      found.push([value, format(value, tickformat ?? (this.isLog ? "~s" : ""))]);
    }
    return found;
  }

  get isVertical() {
    return this.span[0] > this.span[1];
  }

  // Ticks whose labels do not touch; powers of ten come first.
  labelled() {
    const isFirst = ([value]) => !this.isLog || /^10*$/.test(String(value)), placed = [];
    for (const tick of [...this.ticks].sort((a, b) => isFirst(b) - isFirst(a))) {
      const size = this.isVertical ? FONT_SIZE : widthOf(tick[1]) + 2 * PAD, place = this.at(tick[0]);
      if (placed.every(([other, taken]) => Math.abs(other - place) >= (size + taken) / 2)) placed.push([place, size, tick]);
    }
    return placed.map(([place, , [value, text]]) => [place, text, value]);
  }
}

const numbered = (name, axis) => name + "axis" + axis.slice(1);

function mark(parent, symbol, x, y, size, attributes) {
  const r = size / 2, lines = { x: [[-r, -r, r, r], [-r, r, r, -r]], cross: [[-r, 0, r, 0], [0, -r, 0, r]] }[symbol];
  if (lines) {
    const d = lines.map(([a, b, c, e]) => `M${x + a},${y + b}L${x + c},${y + e}`).join("");
    add(parent, "path", { ...attributes, d, stroke: attributes.fill, "stroke-width": 2 });
  } else if (symbol === "diamond" || symbol === "square") {
    const turned = symbol === "diamond" ? `rotate(45 ${x} ${y})` : undefined;
    add(parent, "rect", { ...attributes, x: x - r, y: y - r, width: size, height: size, transform: turned });
  } else {
    const open = symbol === "circle-open" ? { fill: "none", stroke: attributes.fill, "stroke-width": 2 } : {};
    add(parent, "circle", { ...attributes, ...open, cx: x, cy: y, r });
  }
}

// Pieces of a line between values that are not known, as points in pixels; steps turn where the next value begins.
function pieces(trace, x, y) {
  const found = [[]];
  trace.x.forEach((one, i) => {
    const point = [x.at(one), y.at(trace.y[i])];
    if (one === null || trace.y[i] === null || !point.every(Number.isFinite)) return found.push([]);
    const last = found.at(-1);
    const shape = last.length ? trace.line?.shape : undefined, [x0, y0] = last.at(-1) ?? [];
    if (shape === "hv") last.push([point[0], y0]);
    if (shape === "hvh") last.push([(x0 + point[0]) / 2, y0], [(x0 + point[0]) / 2, point[1]]);
    return last.push(point);
  });
  return found.filter((one) => one.length);
}

const path = (points) => points.map((one, i) => (i ? "L" : "M") + one.map((n) => n.toFixed(1)).join(",")).join("");

function hoverText(trace, i) {
  const values = { x: trace.x[i], y: trace.y[i], text: trace.text?.[i] };
  const lines = (trace.hovertemplate ?? "%{x}, %{y:.4~f}").split("<br>");
  const filled = lines.map((one) => one.replace(/%\{(\w+)(?::([^}]*))?\}/g, (_, name, how) => format(values[name], how)));
  return [...filled, trace.name ?? ""].filter(Boolean).join("\n");
}

function drawTrace(parent, trace, x, y, before, points, slot) {
  const note = (px, py, i) => trace.hoverinfo !== "skip" && points.push({ x: px, y: py, text: hoverText(trace, i) });
  const interval = (i, along, px, py) => {
    const bars = trace[along === "x" ? "error_x" : "error_y"];
    if (!bars || !(bars.array[i] || bars.arrayminus[i])) return;
    const axis = along === "x" ? x : y, value = (along === "x" ? trace.x : trace.y)[i];
    const [low, high] = [axis.at(value - bars.arrayminus[i]), axis.at(value + bars.array[i])], w = bars.width ?? 3;
    const d = along === "x" ? `M${low},${py}H${high}M${low},${py - w}v${2 * w}M${high},${py - w}v${2 * w}`
      : `M${px},${low}V${high}M${px - w},${low}h${2 * w}M${px - w},${high}h${2 * w}`;
    add(parent, "path", { d, class: "interval", "stroke-width": bars.thickness ?? 1.2 });
  };
  if (trace.type === "bar") {
    trace.x.forEach((value, i) => {
      if (value === null) return;
      const [of, place] = slot(trace, trace.y[i]), whole = (0.65 * Math.abs(y.span[1] - y.span[0])) / y.words.length;
      const height = whole / of, top = y.at(trace.y[i]) - whole / 2 + place * height, [a, b] = [x.at(0), x.at(value)];
      add(parent, "rect", { x: Math.min(a, b), y: top, width: Math.abs(b - a), height, fill: trace.marker?.color });
      interval(i, "x", b, top + height / 2);
      note(b, top + height / 2, i);
    });
    return;
  }
  const lines = pieces(trace, x, y), modes = trace.mode ?? "lines";
  if (trace.fill === "tonexty" && before) {
    const edge = [...lines.flat(), ...pieces(before, x, y).flat().reverse()];
    add(parent, "path", { d: `${path(edge)}Z`, fill: trace.fillcolor });
  }
  if (modes.includes("lines") && trace.line?.width !== 0) {
    for (const one of lines) add(parent, "path", { d: path(one), ...strokeOf(trace.line) });
  }
  trace.x.forEach((one, i) => {
    const [px, py] = [x.at(one), y.at(trace.y[i])];
    if (one === null || trace.y[i] === null || !Number.isFinite(px + py)) return;
    interval(i, "y", px, py);
    note(px, py, i);
    const { color, size = 6, opacity, symbol } = trace.marker ?? {};
    if (modes.includes("markers")) mark(parent, symbol, px, py, size, { fill: color ?? trace.line?.color, opacity });
  });
}

function drawAxes(svg, box, x, y) {
  const { left, right, top, bottom } = box, above = x.settings.side === "top", edge = above ? top : bottom;
  for (const [axis, name] of [[x, "x"], [y, "y"]]) {
    const across = (place) => (name === "x" ? `M${place},${top}V${bottom}` : `M${left},${place}H${right}`);
    if (axis.settings.showgrid !== false) {
      add(svg, "path", { d: axis.ticks.map(([value]) => across(axis.at(value))).join(""), class: "grid" });
    }
    if (axis.settings.showticklabels === false) continue;
    for (const [place, text] of axis.labelled()) {
      const at = name === "x" ? { x: place, y: above ? edge - PAD : edge + PAD + FONT_SIZE, "text-anchor": "middle" }
        : { x: left - PAD, y: place + FONT_SIZE * 0.35, "text-anchor": "end" };
      add(svg, "text", at, text);
    }
  }
  add(svg, "path", { d: `M${left},${edge}H${right}M${left},${top}V${bottom}`, class: "axis" });
  const middle = (left + right) / 2, down = PAD + 2.4 * FONT_SIZE;
  const title = { x: middle, y: above ? edge - down + FONT_SIZE / 2 : edge + down + FONT_SIZE / 2, "text-anchor": "middle" };
  if (x.settings.title?.text) add(svg, "text", title, x.settings.title.text);
}

function drawShapes(svg, shapes, box, x, y) {
  for (const { x0, x1, y0, y1, xref, yref, line, label } of shapes ?? []) {
    const px = (one) => (xref === "x domain" ? box.left + one * (box.right - box.left) : x.at(one));
    const py = (one) => (yref === "y domain" ? box.bottom - one * (box.bottom - box.top) : y.at(one));
    add(svg, "path", { d: `M${px(x0)},${py(y0)}L${px(x1)},${py(y1)}`, ...strokeOf(line) });
    if (label) add(svg, "text", { x: px(0.5), y: py(y0) - 4, "text-anchor": "middle" }, label.text);
  }
}

// Places of all panels, and their axes. Panels of a column are as wide as those of others, those of a row as high.
function plan(data, layout, width, height, top) {
  const names = [...new Set(data.map((one) => one.xaxis ?? "x"))];
  const { rows, columns, ygap } = { rows: 1, columns: 1, ygap: 0, ...layout.grid };
  const members = (name) => data.filter((one) => (one.xaxis ?? "x") === name);
  const isBars = data.some((one) => one.type === "bar"), areMarks = data.some((one) => one.mode?.includes("markers"));
  const reach = (traces, along) => traces.flatMap((one) => {
    const bars = one[`error_${along}`];
    return one[along].flatMap((value, i) => (bars && typeof value === "number"
      ? [value, value - (bars.arrayminus[i] ?? 0), value + (bars.array[i] ?? 0)] : value === null ? [] : [value]));
  });
  const above = layout.xaxis?.side === "top", under = above ? PAD : 3.4 * FONT_SIZE + PAD;
  const over = top + (above ? 3.4 * FONT_SIZE : PAD), inside = height - over - under;
  const between = rows > 1 ? ygap / (1 - ygap) : 0, rowHeight = inside / (rows + (rows - 1) * between);
  const yOf = (name, span) =>
    new Axis(layout[numbered("y", name)] ?? {}, reach(members(name), "y"), span, { zero: false, margin: 0.05 });
  const left = widest(yOf(names[0], [inside, 0]).ticks.map(([, text]) => text)) + 2 * PAD
    + (layout.yaxis?.title?.text ? 1.6 * FONT_SIZE : 0);
  const gap = 26, columnWidth = (width - left - 3 * PAD - gap * (columns - 1)) / columns;
  return names.map((name, i) => {
    const column = i % columns, row = Math.floor(i / columns);
    const x0 = left + column * (columnWidth + gap), y0 = over + row * rowHeight * (1 + between);
    const box = { left: x0, right: x0 + columnWidth, top: y0, bottom: y0 + rowHeight };
    const settings = layout[numbered("x", name)] ?? {}, values = reach(layout.grid ? data : members(name), "x");
    const x = new Axis(settings, values, [box.left, box.right], { zero: isBars, margin: areMarks || isBars ? 0.05 : 0 });
    return { box, x, y: yOf(name, [box.bottom, box.top]), traces: members(name) };
  });
}

function drawPanels(svg, data, layout, width, height, id, points) {
  const panels = plan(data, layout, width, height, PAD);
  panels.forEach(({ box, x, y, traces }, i) => {
    drawAxes(svg, box, x, y);
    const clip = add(add(svg, "clipPath", { id: `${id}-${i}` }), "rect", {});
    const place = { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top };
    for (const [name, value] of Object.entries(place)) clip.setAttribute(name, value);
    const area = add(svg, "g", { "clip-path": `url(#${id}-${i})` }), seen = [];
    if (!i) drawShapes(area, layout.shapes, box, x, y);
    // Bars of the same word lie below each other; where a word has one bar, it has the whole place.
    const bars = traces.filter((one) => one.type === "bar");
    const slot = (trace, word) => {
      const those = bars.filter((one) => one.x[one.y.indexOf(word)] != null);
      return [those.length, those.indexOf(trace)];
    };
    traces.forEach((one, number) => drawTrace(area, one, x, y, traces[number - 1], seen, slot));
    const inside = (one) => one.x >= box.left - 1 && one.x <= box.right + 1 && one.y >= box.top - 1 && one.y <= box.bottom + 1;
    points.push(...seen.filter(inside));
  });
  const text = layout.yaxis?.title?.text, { box } = panels[0] ?? {};
  if (text && box) {
    const [x, y] = [FONT_SIZE, (box.top + box.bottom) / 2];
    add(svg, "text", { x, y, "text-anchor": "middle", transform: `rotate(-90 ${x} ${y})` }, text);
  }
  return panels;
}

function viridis(share) {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1), i = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return `rgb(${VIRIDIS[i].map((one, c) => Math.round(one + (place - i) * (VIRIDIS[i + 1][c] - one)))})`;
}

function drawParallel(svg, { dimensions, line }, width, height, points) {
  const low = line.color.reduce((a, b) => Math.min(a, b)), high = line.color.reduce((a, b) => Math.max(a, b));
  const axes = dimensions.map((one) => new Axis(one, one.values, [height - 30, 60], { margin: 0, zero: false }));
  const left = 2 * PAD + widest(axes[0].ticks.map(([, text]) => text)), right = 2 * PAD;
  const placeOf = (d) => left + (d * (width - left - right)) / Math.max(1, axes.length - 1);
  const shown = ({ values, tickvals, ticktext }, i) => (tickvals ? ticktext[tickvals.indexOf(values[i])] : format(values[i], ".4~f"));
  line.color.forEach((value, i) => {
    const places = dimensions.map((one, d) => [placeOf(d), axes[d].at(one.values[i])]);
    const color = viridis(high > low ? (value - low) / (high - low) : 1);
    add(svg, "path", { d: path(places), ...strokeOf({ color }, 1.8) });
    const text = dimensions.map((one) => `${one.label}: ${shown(one, i)}`).join("\n");
    points.push(...places.map(([x, y]) => ({ x, y, text })));
  });
  axes.forEach((axis, d) => {
    const place = placeOf(d), anchor = d === 0 ? "start" : d === axes.length - 1 ? "end" : "middle";
    add(svg, "path", { d: `M${place},${axis.span[0]}V${axis.span[1]}`, class: "axis" });
    add(svg, "text", { x: d ? place : PAD, y: 24 + (d % 2) * 18, "text-anchor": anchor }, dimensions[d].label);
    for (const [y, text] of axis.labelled()) {
      add(svg, "text", { x: place - TICK, y: y + FONT_SIZE * 0.35, "text-anchor": "end" }, text);
    }
  });
}

// One button for each series that the legend names; it hides or shows all of its group.
function drawLegend(legend, data, hidden, redraw) {
  const named = data.filter((one) => one.name && one.showlegend !== false);
  legend.replaceChildren(...(named.length < 2 ? [] : named).map((one) => {
    const button = document.createElement("button"), group = one.legendgroup ?? one.name;
    const swatch = document.createElement("span"), color = one.marker?.color ?? one.line?.color;
    Object.assign(button, { type: "button", textContent: one.name, ariaPressed: String(!hidden.has(group)) });
    const isDashed = one.line?.dash in DASHES, gaps = `repeating-linear-gradient(90deg, ${color} 0 3px, transparent 3px 6px)`;
    swatch.style.background = isDashed ? gaps : color;
    button.prepend(swatch);
    button.addEventListener("click", () => {
      if (!hidden.delete(group)) hidden.add(group);
      redraw();
      legend.querySelectorAll("button")[named.indexOf(one)].focus();
    });
    return button;
  }));
}

// The name and values of what lies nearest to the pointer.
function showNearest(hover, points, x, y, width) {
  const far = (one) => Math.hypot(one.x - x, one.y - y);
  const near = points.reduce((best, one) => (!best || far(one) < far(best) ? one : best), null);
  hover.hidden = !near || far(near) > NEAR;
  if (hover.hidden) return;
  hover.textContent = near.text;
  const left = near.x > width / 2;
  Object.assign(hover.style, {
    top: `${near.y + 10}px`, left: left ? "" : `${near.x + 10}px`, right: left ? `${width - near.x + 10}px` : "",
  });
}

function drawFigure(element, { data, layout }) {
  const [legend, hover] = ["legend", "hover"].map((name) => Object.assign(document.createElement("div"), { className: name }));
  const plot = Object.assign(document.createElement("div"), { className: "plot" }), hidden = new Set(), points = [];
  element.append(legend, plot);
  if (layout.grid) element.style.minWidth = `${120 + 210 * layout.grid.columns}px`;
  let panels = [], zoomed = layout, from = null;
  const draw = () => {
    const width = plot.clientWidth || 900, height = layout.height ?? 430;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-hidden", "true"); // the element around it has the name
    const shown = data.filter((one) => !hidden.has(one.legendgroup ?? one.name));
    points.length = 0;
    if (data[0]?.type === "parcoords") drawParallel(svg, data[0], width, height, points);
    else panels = drawPanels(svg, shown, zoomed, width, height, element.id, points);
    hover.hidden = true;
    plot.replaceChildren(svg, hover);
    drawLegend(legend, data[0]?.type === "parcoords" ? [] : data, hidden, draw);
  };
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    showNearest(hover, points, event.clientX - box.left, event.clientY - box.top, box.width);
  });
  plot.addEventListener("pointerleave", () => { hover.hidden = true; });
  // What is dragged over with a mouse is shown larger; a double click shows all, and what was shown at first.
  const zoom = (x, y) => {
    zoomed = { ...layout, xaxis: { ...layout.xaxis, range: x }, yaxis: { ...layout.yaxis, range: y } };
    draw();
  };
  const place = ({ clientX, clientY }) => [clientX - plot.getBoundingClientRect().left, clientY - plot.getBoundingClientRect().top];
  plot.addEventListener("pointerdown", (event) => {
    from = event.pointerType === "mouse" && panels.length === 1 ? place(event) : null;
    if (from) event.preventDefault(); // no text is marked
  });
  plot.addEventListener("pointerup", (event) => {
    const to = place(event), far = from && [0, 1].every((i) => Math.abs(to[i] - from[i]) > 15);
    if (far) zoom(...[panels[0].x, panels[0].y].map((axis, i) => (axis.words ? undefined
      : [axis.under(from[i]), axis.under(to[i])].sort((a, b) => a - b))));
    from = null;
  });
  plot.addEventListener("dblclick", () => {
    if (zoomed !== layout) zoomed = layout, draw();
    else zoom();
  });
  let last = plot.clientWidth;
  new ResizeObserver(() => {
    if (!plot.clientWidth || plot.clientWidth === last) return;
    last = plot.clientWidth;
    requestAnimationFrame(draw); // not while the browser measures
  }).observe(plot);
  draw();
}
