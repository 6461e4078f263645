"use strict";
(() => {
  const find = document.getElementById("find");
  const differs = document.getElementById("differs");
  const count = document.getElementById("count");
  const clear = document.getElementById("clear");
  const tables = [...document.querySelectorAll("details.table")];

  // Find: every word must be in a row's text.
  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = Boolean(differs && differs.checked);
    const active = words.length > 0 || only;
    let shown = 0;
    let all = 0;
    for (const table of tables) {
      const rows = [...table.querySelectorAll("tr[data-compares]")];
      let here = 0;
      for (const row of rows) {
        const kept = words.every((word) => row.dataset.text.includes(word)) && (!only || row.dataset.compares === "differs");
        row.hidden = !kept;
        here += kept ? 1 : 0;
      }
      table.hidden = active && here === 0;
      if (active && here > 0) table.open = true;
      shown += here;
      all += rows.length;
    }
    clear.hidden = !active;
    count.textContent = active ? `${shown} of ${all} rows` : "";
  }

  function reset() {
    find.value = "";
    if (differs) differs.checked = false;
    filter();
  }

  // Sort
  function key(row, column) {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    const plain = text.replace(/,/g, "").replace(/%$/, "");
    const number = plain === "" ? NaN : Number(plain);
    return { empty: text === "" || text === "-", number, text };
  }

  function sort(table, column, heading) {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a.empty || b.empty) return Number(a.empty) - Number(b.empty);
      const order = Number.isNaN(a.number) || Number.isNaN(b.number)
        ? a.text.localeCompare(b.text, "en", { numeric: true })
        : a.number - b.number;
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, column, heading));
      heading.append(button);
    });
  }

  // A link to something closed or filtered out opens it before the browser jumps there.
  function reveal(id) {
    const target = id && document.getElementById(id);
    if (!target) return;
    if (target.closest("[hidden]")) reset();
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  }

  // The numbers of a mark: by a tap near it, or by the arrow keys in its picture.
  const label = document.getElementById("label");
  const MARKS = ".mark, [id*='-point-']";
  const REACH = 24;  // pixels between a finger and a mark

  function choose(mark) {
    document.querySelectorAll(".chosen").forEach((one) => one.classList.remove("chosen"));
    if (mark) mark.classList.add("chosen");
    label.textContent = mark ? mark.title || mark.querySelector("title").textContent : "";
  }

  function middle(mark) {
    const box = mark.getBoundingClientRect();
    const at = mark.classList.contains("mark") ? parseFloat(mark.style.getPropertyValue("--at")) / 100 : 0.5;
    return [box.left + box.width * at, box.top + box.height / 2];
  }

  function nearest(picture, event) {
    let best = null;
    let least = picture.matches("svg") ? REACH : Infinity;
    for (const mark of picture.querySelectorAll(MARKS)) {
      const [x, y] = middle(mark);
      const far = picture.matches("svg") ? Math.hypot(x - event.clientX, y - event.clientY) : Math.abs(y - event.clientY);
      if (far < least) [best, least] = [mark, far];
    }
    return best;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) reveal(link.getAttribute("href").slice(1));
    const picture = event.target.closest(".marks, .drawing, svg.drawn");
    choose(picture && nearest(picture, event));
  });
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") choose(null);
    if (!step || !event.target.matches(".marks, svg.drawn")) return;
    event.preventDefault();
    const marks = [...event.target.querySelectorAll(MARKS)];
    const at = marks.findIndex((mark) => mark.classList.contains("chosen"));
    choose(marks[at < 0 ? 0 : (at + step + marks.length) % marks.length]);
  });

  // The contents mark the part that is being read.
  const ways = [...document.querySelectorAll("nav a")];
  const parts = ways.map((way) => document.querySelector(way.hash));
  let waiting = false;
  function whereabouts() {
    waiting = false;
    const now = parts.findLastIndex((part) => part.getBoundingClientRect().top < innerHeight / 3);
    ways.forEach((way, index) => {
      if (index === Math.max(now, 0)) way.setAttribute("aria-current", "true");
      else way.removeAttribute("aria-current");
    });
  }
  addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(whereabouts);
    waiting = true;
  }, { passive: true });
  whereabouts();

  // A phone begins with the figures folded.
  const figures = [...document.querySelectorAll("details.figure")];
  if (matchMedia("(max-width: 40rem)").matches) figures.forEach((figure) => { figure.open = false; });
  addEventListener("hashchange", () => reveal(location.hash.slice(1)));
  if (location.hash) {
    reveal(location.hash.slice(1));
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }

  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", filter);
  if (differs) differs.addEventListener("change", filter);
  clear.addEventListener("click", () => { reset(); find.focus(); });
  document.getElementById("open-all").addEventListener("click", () => tables.forEach((table) => { table.open = true; }));
  document.getElementById("close-all").addEventListener("click", () => tables.forEach((table) => { table.open = false; }));
  addEventListener("beforeprint", () => [...tables, ...figures].forEach((box) => { box.open = true; }));
})();
