"use strict";
(() => {
  const find = document.getElementById("find");
  const differs = document.getElementById("differs");
  const count = document.getElementById("count");
  const clear = document.getElementById("clear");
  const tip = document.getElementById("tip");
  const tables = [...document.querySelectorAll("details.table")];

  // Find: every word must be in a row's text; F8 means the rows that finding F8 compares.
  const fits = (text, word) => /^f\d+[a-z]?$/.test(word) ? ` ${text} `.includes(` ${word} `) : text.includes(word);

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
        const kept = words.every((word) => fits(row.dataset.text, word)) && (!only || row.dataset.compares === "differs");
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
      if (heading.classList.contains("nosort")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, column, heading));
      heading.append(button);
    });
  }

  // What is pointed at: a mark of a panel, the nearest to the pointer, or a row of a forest.
  let now = null;

  function hide() {
    if (now) now.classList.remove("now");
    now = null;
    tip.hidden = true;
  }

  function show(element, x, y) {
    if (now !== element) {
      hide();
      now = element;
      element.classList.add("now");
      tip.textContent = element.dataset.tip;
      tip.hidden = false;
    }
    const { offsetWidth: wide, offsetHeight: high } = tip;
    const left = Math.min(Math.max(x - wide / 2, 8), document.documentElement.clientWidth - wide - 8);
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(y - high - 14 < 0 ? y + 18 : y - high - 14) + scrollY}px`;
  }

  function showMark(mark) {
    const box = mark.lastElementChild.getBoundingClientRect();
    show(mark, box.x + box.width / 2, box.y);
  }

  const REACH = 32;
  for (const panel of document.querySelectorAll("svg.panel")) {
    const marks = [...panel.querySelectorAll(".mark")];
    const point = (event) => {
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(panel.getScreenCTM().inverse());
      let best = null;
      let least = REACH;
      for (const mark of marks) {
        const far = Math.hypot(mark.dataset.x - at.x, mark.dataset.y - at.y);
        if (far < least) [best, least] = [mark, far];
      }
      if (best) showMark(best); else hide();
    };
    panel.addEventListener("pointermove", point);
    panel.addEventListener("pointerdown", point);
    panel.addEventListener("pointerleave", hide);
    panel.addEventListener("blur", hide);
    panel.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step || marks.length === 0) return;
      event.preventDefault();
      const place = marks.indexOf(now);
      showMark(marks[place < 0 ? (step > 0 ? 0 : marks.length - 1) : (place + step + marks.length) % marks.length]);
    });
  }

  const point = (event) => {
    const row = event.target.closest(".forest tr[data-tip], .strips .strip[data-tip]");
    if (row) show(row, event.clientX, event.clientY);
    else if (!event.target.closest("svg.panel")) hide();
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);

  // Pictures are packed in their links; without this script the link saves the packed file.
  function unpacked(link) {
    const bytes = Uint8Array.from(atob(link.href.split(",")[1]), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer().then((content) => new Blob([content], { type: "image/svg+xml" }));
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-unpacked]");
    if (!link || typeof DecompressionStream === "undefined") return;
    event.preventDefault();
    unpacked(link).then((content) => {
      const plain = document.createElement("a");
      plain.href = URL.createObjectURL(content);
      plain.download = link.dataset.unpacked;
      plain.click();
      setTimeout(() => URL.revokeObjectURL(plain.href), 1000);
    });
  });

  // A picture that the page does not draw itself is the file that it hands out.
  for (const place of document.querySelectorAll("[data-picture]")) {
    const details = place.closest("details");
    details.addEventListener("toggle", () => {
      if (!details.open || place.firstChild) return;
      const image = document.createElement("img");
      image.alt = place.dataset.alt;
      unpacked(details.querySelector(`a[data-unpacked="${place.dataset.picture}"]`)).then((content) => {
        image.src = URL.createObjectURL(content);
        place.append(image);
      });
    });
  }

  // A link to something closed or filtered out opens it before the browser jumps there.
  function reveal(id) {
    const target = id && document.getElementById(id);
    if (!target) return;
    if (target.closest("[hidden]")) reset();
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    if (link.dataset.find) {
      find.value = link.dataset.find;
      filter();
    }
    reveal(link.getAttribute("href").slice(1));
  });
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
  addEventListener("beforeprint", () => tables.forEach((table) => { table.open = true; }));
})();
