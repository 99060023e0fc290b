// Charts, copy buttons, local times, and a live connection that is closed while the page is hidden. Nothing here writes markup.
(() => {
  "use strict";

  const NARROW = 640;
  const MAX_POINTS = 5000;
  const MIN_SPAN = 20;
  const charts = [];

  // Copy buttons

  function showCopyButtons() {
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = !navigator.clipboard;
  }

  showCopyButtons();
  document.addEventListener("htmx:sseMessage", showCopyButtons);
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });

  // Times in the browser's time zone; their tooltips have UTC

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const localTime = (date) => date.toLocaleString("sv"); // as in ISO 8601, which Swedish uses

  function showLocalTimes() {
    for (const time of document.querySelectorAll("time")) time.textContent = localTime(new Date(time.dateTime));
  }

  showLocalTimes();
  document.addEventListener("htmx:sseMessage", showLocalTimes);
  const zoneLine = document.getElementById("zone");
  if (zoneLine && zone !== "UTC") zoneLine.textContent = `Times are those of ${zone}; point at one to see it in UTC.`;

  // A box that checks all boxes of its form

  for (const label of document.querySelectorAll("[data-select-all]")) {
    const boxes = label.closest("form").querySelectorAll(`input[name="${label.dataset.selectAll}"]`);
    label.hidden = false;
    label.addEventListener("change", (event) => { for (const box of boxes) box.checked = event.target.checked; });
  }

  // Hints about a scraper, while that one is chosen

  const chosen = document.querySelector("select[name=scraper]");
  function showHints() {
    for (const hint of document.querySelectorAll("[data-scraper]")) hint.hidden = hint.dataset.scraper !== chosen.value;
  }
  if (chosen) {
    showHints();
    chosen.addEventListener("change", showHints);
  }

  // A text file whose lines are added to a text area, without being uploaded as a file

  for (const label of document.querySelectorAll("[data-file-for]")) {
    const input = label.querySelector("input");
    const area = document.getElementById(label.dataset.fileFor);
    label.hidden = false;
    input.addEventListener("change", async () => {
      const texts = await Promise.all([...input.files].map((file) => file.text()));
      area.value = [area.value.trim(), ...texts].filter(Boolean).join("\n");
      input.value = "";
    });
  }

  // Charts

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const DAY = 86400;

  function clock(times) {
    const [start, end] = times.length > 1 && times[times.length - 1] - times[0] > DAY / 2 ? [5, 16] : [11, 19];
    return times.map((time) => localTime(new Date(time * 1000)).slice(start, end));
  }

  function options(element) {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    return {
      width: element.clientWidth,
      height: element.clientHeight,
      cursor: { y: false, points: { size: 6 } },
      legend: { show: false },
      scales: {
        // Some seconds at least, so that the first two points do not look like a peak.
        x: { range: (chart, low, high) => [Math.min(low || 0, (high || 0) - MIN_SPAN), high || MIN_SPAN] },
        y: { range: (chart, low, high) => [0, Math.max(1, (high || 0) * 1.15)] },
      },
      axes: [
        { ...axis, size: 28, space: window.innerWidth < NARROW ? 70 : 90, values: (chart, times) => clock(times) },
        { ...axis, size: 48 },
      ],
      series: [
        {},
        { label: "pages/s", stroke: colour("--accent"), width: 2, fill: colour("--accent") + "1f", points: { show: isAlone } },
      ],
    };
  }

  // A run of a few seconds has one rate, and a line needs two.
  function isAlone(plot) {
    return plot.data[1].filter((rate) => rate !== null).length === 1;
  }

  function draw(chart) {
    if (chart.plot) chart.plot.destroy();
    // Without a rate, its axis would show times around 1970, or months.
    const isEmpty = chart.data[1].every((rate) => rate === null);
    chart.element.classList.toggle("empty", isEmpty);
    chart.plot = isEmpty ? null : new uPlot(options(chart.element), chart.data, chart.element);
  }

  function setHistory(columns) {
    for (const chart of charts) {
      chart.data = [columns[0].slice(), columns[1].slice()];
      draw(chart);
    }
  }

  function addPoint([at, rate]) {
    for (const chart of charts) {
      const [times, rates] = chart.data;
      if (times.length && at <= times[times.length - 1]) continue;
      times.push(at);
      rates.push(rate);
      const oldest = at - (Number(chart.element.dataset.span) || Infinity);
      while (times[0] < oldest || times.length > MAX_POINTS) { times.shift(); rates.shift(); }
      if (chart.plot) chart.plot.setData(chart.data);
      else draw(chart);
    }
  }

  function redraw() {
    for (const chart of charts) draw(chart);
  }

  // The live connection: htmx swaps in the fragments; this handles the other events.

  let source = null;

  function connect(url) {
    if (source) source.close();
    source = new EventSource(url, { withCredentials: true });
    source.addEventListener("history", (event) => setHistory(JSON.parse(event.data)));
    source.addEventListener("point", (event) => addPoint(JSON.parse(event.data)));
    source.addEventListener("title", (event) => { document.title = JSON.parse(event.data) + " · Shoal"; });
    source.addEventListener("open", () => document.body.classList.remove("disconnected"));
    source.addEventListener("error", () => document.body.classList.add("disconnected"));
    return source;
  }

  function onVisibilityChange() {
    if (document.hidden && source) {
      source.close();
    } else if (source && source.readyState === EventSource.CLOSED) {
      // htmx reconnects when this one reports an error.
      source.dispatchEvent(new Event("error"));
    }
  }

  if (window.uPlot && window.htmx) {
    for (const element of document.querySelectorAll("[data-chart]")) {
      charts.push({ element, data: [[], []], plot: null });
    }
    redraw();
    window.htmx.createEventSource = connect;
    document.addEventListener("visibilitychange", onVisibilityChange);
    window.addEventListener("pagehide", () => source && source.close());
    let resizeTimer = 0;
    window.addEventListener("resize", () => { clearTimeout(resizeTimer); resizeTimer = setTimeout(redraw, 150); });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  }
})();
