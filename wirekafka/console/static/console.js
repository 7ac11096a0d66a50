// Keys, charts and live output. Every page can be read without this script.
"use strict";
(() => {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = new Map();
  const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  const clock = (time) => new Date(time * 1000).toISOString().slice(11, 19);

  // A number with its unit: "1.5 KiB/s", "12K records", "2.5 min".
  function measured(value, unit) {
    if (value === null || value === undefined) return "–";
    if (unit === "B" || unit === "B/s") {
      const power = value >= 1 ? Math.min(Math.floor(Math.log(value) / Math.log(1024)), SIZES.length - 1) : 0;
      return `${Number((value / 1024 ** power).toFixed(1))} ${SIZES[power]}${unit.slice(1)}`;
    }
    if (unit === "ms") {
      const [size, name] = [[86400e3, "d"], [3600e3, "h"], [60e3, "min"], [1e3, "s"], [1, "ms"]].find(([each]) => value >= each) || [1, "ms"];
      return `${Number((value / size).toFixed(1))} ${name}`;
    }
    return `${compact.format(value)} ${unit}`.trim();
  }

  // Round steps of an axis: of times by the clock, of bytes by powers of two.
  const MILLISECONDS = [1, 5, 10, 50, 100, 500, ...[1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800, 2592000].map((seconds) => seconds * 1000)];
  const BYTES = Array.from({ length: 51 }, (_, power) => 2 ** power);
  const STEPS = { "ms": MILLISECONDS, "B": BYTES, "B/s": BYTES };

  function draw(element) {
    const [times, values] = JSON.parse(element.dataset.points);
    if (times.length < 2 || !window.uPlot) return;
    const isSpark = element.classList.contains("spark");
    const unit = element.dataset.unit || "";
    const line = { stroke: color("--accent"), width: 1.5, points: { show: false }, value: (_, value) => measured(value, unit) };
    const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    const size = isSpark
      ? { width: 120, height: 26 }
      : { width: Math.max(element.clientWidth, 200), height: 180 };
    const options = {
      ...size,
      cursor: { show: !isSpark },
      legend: { show: !isSpark },
      axes: isSpark ? [{ show: false }, { show: false }] : [
        { ...axis, space: 70, values: (_, splits) => splits.map((time) => clock(time).replace(/:00$/, "")) },
        { ...axis, ...(STEPS[unit] && { incrs: STEPS[unit] }), size: 116, values: (_, splits) => splits.map((value) => measured(value, unit)) },
      ],
      scales: { y: { range: (_, low, high) => [Math.min(low, 0), high > 0 ? high * 1.05 : 1] } },
      series: [{ label: "UTC", value: (_, time) => (time ? clock(time) : "–") }, { ...line, label: element.dataset.label || "" }],
      padding: isSpark ? [2, 0, 2, 0] : [8, 32, 0, 0],
    };
    drawn.set(element, { plot: new uPlot(options, [times, values], element), points: element.dataset.points });
  }

  function drawChanged() {
    for (const [element, { plot, points }] of [...drawn]) {
      if (element.isConnected && element.dataset.points === points) continue;
      plot.destroy();
      drawn.delete(element);
    }
    document.querySelectorAll(".spark[data-points], .chart[data-points]").forEach((each) => { if (!drawn.has(each)) draw(each); });
  }

  function drawAll() {
    for (const [, { plot }] of drawn) plot.destroy();
    drawn.clear();
    drawChanged();
  }

  function live(element) {
    const rows = element.querySelector("[data-live-rows]");
    const status = element.querySelector("[data-live-status]");
    const cancel = element.querySelector("[data-live-cancel]");
    const pause = element.querySelector("[data-live-pause]");
    const clear = element.querySelector("[data-live-clear]");
    const most = Number(element.dataset.most || 1000);
    const isNewestFirst = element.dataset.newest === "first";
    let source = null;
    let at = "";
    const state = (name) => {
      element.dataset.state = name;
      status.classList.toggle("busy", name === "open" && !pause);
      if (pause) pause.textContent = name === "open" ? "Pause" : "Resume";
    };
    const end = (text) => {
      source.close();
      state("ended");
      if (text) status.textContent = text;
      if (cancel) cancel.hidden = true;
    };
    function open() {
      source = new EventSource(element.dataset.live + (at && `&at=${encodeURIComponent(at)}`));
      state("open");
      status.classList.remove("problem");
      source.addEventListener("row", (event) => {
        rows.insertAdjacentHTML(isNewestFirst ? "afterbegin" : "beforeend", JSON.parse(event.data));
        while (rows.children.length > most) (isNewestFirst ? rows.lastElementChild : rows.firstElementChild).remove();
      });
      source.addEventListener("status", (event) => { status.innerHTML = JSON.parse(event.data); });
      source.addEventListener("at", (event) => { at = JSON.parse(event.data); });
      source.addEventListener("failed", (event) => {
        status.innerHTML = JSON.parse(event.data);
        status.classList.add("problem");
        end();
      });
      source.addEventListener("done", () => end());
      source.onerror = () => end("The connection to the console has ended.");
    }
    function stop(name) {
      source.close();
      state(name);
    }
    if (cancel) cancel.addEventListener("click", () => end("Cancelled."));
    if (clear) clear.addEventListener("click", () => rows.replaceChildren());
    if (pause) {
      pause.addEventListener("click", () => { if (element.dataset.state === "open") stop("paused"); else open(); });
      // Nobody looks: the console reads nothing meanwhile.
      document.addEventListener("visibilitychange", () => {
        if (document.hidden && element.dataset.state === "open") stop("hidden");
        else if (!document.hidden && element.dataset.state === "hidden") open();
      });
    }
    open();
  }

  // Remembers the chosen columns. Returns whether the page is loaded again with them.
  function columns(element) {
    const boxes = [...element.querySelectorAll("input[type=checkbox]")];
    const names = () => boxes.filter((each) => each.checked).map((each) => each.name.slice(2)).join(",");
    try {
      element.closest("form").addEventListener("submit", () => localStorage.setItem("columns", names()));
      const remembered = localStorage.getItem("columns");
      const url = new URL(location.href);
      if (!remembered || url.searchParams.has("columns") || remembered === names()) return false;
      url.searchParams.set("columns", remembered);
      location.replace(url);
      return true;
    } catch {
      return false;  // The browser keeps nothing for this site.
    }
  }

  let isGoing = false;
  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) return;
    if (isGoing) {
      isGoing = false;
      const found = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
      if (found) { event.preventDefault(); found.click(); }
    } else if (event.key === "g") {
      isGoing = true;
    } else if (event.key === "/") {
      const field = document.querySelector("[data-filter]");
      if (field) { event.preventDefault(); field.focus(); field.select(); }
    } else if (event.key === "?") {
      document.getElementById("keys").showModal();
    }
  }

  document.addEventListener("keydown", pressed);
  document.addEventListener("refreshed", drawChanged);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.addEventListener("DOMContentLoaded", () => {
    drawAll();
    const choice = document.querySelector("[data-columns]");
    if (choice && columns(choice)) return;
    document.querySelectorAll("[data-live]").forEach(live);
  });
})();
