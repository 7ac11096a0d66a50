// Keys, charts and live output. Every page can be read without this script.
"use strict";
(() => {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = [];

  function draw(element) {
    const [times, values] = JSON.parse(element.dataset.points);
    if (times.length < 2 || !window.uPlot) return;
    const isSpark = element.classList.contains("spark");
    const line = { stroke: color("--accent"), width: 1.5, points: { show: false } };
    const clock = (time) => new Date(time * 1000).toISOString().slice(11, 19);
    const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 } };
    const size = isSpark
      ? { width: 120, height: 26 }
      : { width: Math.max(element.clientWidth, 200), height: 180 };
    const options = {
      ...size,
      cursor: { show: !isSpark },
      legend: { show: !isSpark },
      axes: isSpark ? [{ show: false }, { show: false }] : [
        { ...axis, values: (_, splits) => splits.map(clock) },
        { ...axis, size: 70 },
      ],
      scales: { y: { range: (_, low, high) => [Math.min(low, 0), high > 0 ? high * 1.05 : 1] } },
      series: [{ label: "UTC", value: (_, time) => (time ? clock(time) : "") }, { ...line, label: element.dataset.label || "" }],
      padding: isSpark ? [2, 0, 2, 0] : undefined,
    };
    drawn.push([element, new uPlot(options, [times, values], element)]);
  }

  function drawAll() {
    for (const [, plot] of drawn.splice(0)) plot.destroy();
    document.querySelectorAll(".spark[data-points], .chart[data-points]").forEach(draw);
  }

  function live(element) {
    const rows = element.querySelector("[data-live-rows]");
    const status = element.querySelector("[data-live-status]");
    const cancel = element.querySelector("[data-live-cancel]");
    const most = Number(element.dataset.most || 1000);
    const source = new EventSource(element.dataset.live);
    const end = (text) => {
      source.close();
      element.dataset.state = "ended";
      status.classList.remove("busy");
      if (text) status.textContent = text;
      if (cancel) cancel.hidden = true;
    };
    status.classList.add("busy");
    element.dataset.state = "open";
    source.addEventListener("row", (event) => {
      rows.insertAdjacentHTML("beforeend", JSON.parse(event.data));
      while (rows.children.length > most) rows.firstElementChild.remove();
    });
    source.addEventListener("status", (event) => { status.innerHTML = JSON.parse(event.data); });
    source.addEventListener("failed", (event) => {
      status.innerHTML = JSON.parse(event.data);
      status.classList.add("problem");
      end();
    });
    source.addEventListener("done", () => end());
    source.onerror = () => end("The connection to the console has ended.");
    if (cancel) cancel.addEventListener("click", () => end("Cancelled."));
  }

  // Figures that go on showing what is true now: the same part of the same page, got anew.
  function refresh(element) {
    const url = element.dataset.refreshFrom || location.href;
    setTimeout(async () => {
      try {
        const response = document.hidden ? null : await fetch(url);
        if (response && response.ok && !response.redirected) {
          const page = new DOMParser().parseFromString(await response.text(), "text/html");
          const found = page.getElementById(element.id);
          // What has the focus stays, or the keyboard would lose its place.
          if (found && !element.contains(document.activeElement)) element.replaceChildren(...found.childNodes);
        }
      } catch { /* The console does not answer: the page shows what it had. */ }
      refresh(element);
    }, Number(element.dataset.refresh) * 1000);
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
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.addEventListener("DOMContentLoaded", () => {
    drawAll();
    document.querySelectorAll("[data-live]").forEach(live);
    document.querySelectorAll("[data-refresh]").forEach(refresh);
  });
})();
